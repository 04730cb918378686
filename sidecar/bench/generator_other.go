//go:build !linux

package bench

import (
	"context"
	"errors"
)

// generator drives connections through epoll, so it needs Linux.
type generator struct{}

func dialGenerator(string, int) (*generator, error) {
	return nil, errors.New("the load generator of this benchmark needs Linux; run it in a container or on a Linux machine")
}

func (*generator) close() {}

func (*generator) run(context.Context, burst) (measured, error) {
	return measured{}, errors.ErrUnsupported
}
