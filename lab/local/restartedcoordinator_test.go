package local_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/node"
)

// A write that its coordinator has not answered when it crashes is answered after the restart.
func TestAWriteThatIsInFlightWhenItsCoordinatorCrashesIsAnsweredAfterTheRestart(t *testing.T) {
	d := start(t, local.Options{Scope: node.ScopeConnection, Cache: true,
		Tune: local.Tune{Sidecar: func(c *session.Config) {
			c.PutTimeout, c.PutRecovery = time.Minute, time.Minute
		}}})
	const dc = "us-west-1"
	ctx, addr := t.Context(), endpoint(t, d, dc)
	first := oneSession(t, addr)
	if err := first.Set(ctx, "k", "before", 0).Err(); err != nil {
		t.Fatal(err)
	}
	// A new log cannot tell what an earlier one accepted. The sidecar has to know that this one has completed a write.
	if done, err := first.Do(ctx, "CAUSAL", "WAIT", "all", 60_000).Int(); err != nil || done != 1 {
		t.Fatalf("CAUSAL WAIT: %d, %v", done, err)
	}
	inject := func(kind string) {
		t.Helper()
		if err := d.Inject(ctx, local.Fault{Kind: kind, DC: dc, Part: "coordinator"}); err != nil {
			t.Fatal(err)
		}
	}
	inject("pause")
	answered := make(chan error, 1)
	go func() { answered <- first.Set(ctx, "k", "after", 0).Err() }()
	awaitWriteElsewhere(t, addr)
	inject("crash")
	select {
	case err := <-answered:
		t.Fatalf("the write was answered %v while its coordinator was down", err)
	default:
	}
	inject("restart")
	if err := <-answered; err != nil {
		t.Errorf("the write is answered %v", err)
	}
	if v, err := first.Get(ctx, "k").Result(); v != "after" || err != nil {
		t.Errorf("then the key has %q, %v", v, err)
	}
}

// awaitWriteElsewhere waits until a new session's write is accepted: sessions go round a coordinator that owes an
// answer.
func awaitWriteElsewhere(t *testing.T, addr string) {
	t.Helper()
	accepted, timeout := make(chan struct{}, 1), time.After(time.Minute)
	writes := time.NewTicker(100 * time.Millisecond)
	defer writes.Stop()
	for i := 0; ; i++ {
		select {
		case <-timeout:
			t.Fatal("no other write is accepted")
		case <-accepted:
			return
		case <-writes.C:
			c := oneSession(t, addr)
			go func() {
				if c.Set(t.Context(), fmt.Sprint("other", i), i, 0).Err() == nil {
					select {
					case accepted <- struct{}{}:
					default:
					}
				}
			}()
		}
	}
}
