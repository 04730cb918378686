package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Reach returns why a load would measure nothing: its config is refused, or no endpoint accepts a connection. Some of
// several may be away, as in a test of faults.
func Reach(ctx context.Context, config Config) error {
	config, err := config.withDefaults(time.Now())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	refused := make(chan error, len(config.Endpoints))
	for _, e := range config.Endpoints {
		go func() { refused <- dialEndpoint(ctx, e.Addr) }()
	}
	var first error
	for range config.Endpoints {
		err := <-refused
		if err == nil {
			return nil // which ends the others
		}
		if first == nil {
			first = err
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil // whoever has ended it is not to read about endpoints
	}
	return fmt.Errorf("no endpoint accepts connections: %w; start the store, or name a Redis port of it, "+
		"as host:port", first)
}

func dialEndpoint(ctx context.Context, addr string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err == nil {
		_ = conn.Close() // nothing was sent
	}
	return err
}
