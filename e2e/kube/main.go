package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
)

// Main runs the tests of a package on clusters. It calls prepare before them and close after them, also if prepare has
// failed.
func Main(m *testing.M, prepare, close func(context.Context) error) {
	ctx := context.Background()
	code := 1
	err := prepare(ctx)
	if err == nil {
		code = m.Run()
	}
	if err = errors.Join(err, close(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}
