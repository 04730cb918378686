package local_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/node"
)

// The write that a hung coordinator has not answered is given up after 5 s. Those of other connections succeed
// elsewhere before that.
func TestWritesGoRoundAHungCoordinatorBeforeTheFirstOneIsGivenUp(t *testing.T) {
	d := start(t, local.Options{Scope: node.ScopeConnection, Cache: true})
	const dc = "us-west-1"
	ctx, addr := t.Context(), endpoint(t, d, dc)
	first := oneSession(t, addr)
	if err := first.Set(ctx, "before", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := d.Inject(ctx, local.Fault{Kind: "pause", DC: dc, Part: "coordinator"}); err != nil {
		t.Fatal(err)
	}
	givenUp, accepted := make(chan error, 1), make(chan int)
	go func() { givenUp <- first.Set(ctx, "first", 1, 0).Err() }()
	writes := time.NewTicker(100 * time.Millisecond)
	defer writes.Stop()
	timeout := time.After(time.Minute)
	for i := 0; ; i++ {
		select {
		case <-timeout:
			t.Fatal("no write is answered")
		case err := <-givenUp:
			t.Fatalf("the first write was answered %v before another one was accepted", err)
		case <-accepted:
			if err := <-givenUp; err == nil || !strings.HasPrefix(err.Error(), "UNKNOWN") {
				t.Errorf("the first write is answered %v", err)
			}
			return
		case <-writes.C:
			c := oneSession(t, addr)
			go func() {
				if c.Set(ctx, fmt.Sprint("later", i), i, 0).Err() != nil {
					return
				}
				select {
				case accepted <- i:
				case <-ctx.Done():
				}
			}()
		}
	}
}
