package processes_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/ports"
)

// isServing returns nil while a process that was told to stop still serves as before.
func (p *proc) isServing() error {
	r, err := p.readiness()
	if err == nil && r.Phase != contract.PhaseStopping {
		err = fmt.Errorf("%+v", r)
	}
	return err
}

func TestASidecarServesUntilLoadBalancersHaveNoticedThatItStopsAndCutsNoCommand(t *testing.T) {
	d := deploy(t, nil)
	p := d.procs["a-sidecar"]
	d.kill("a-sidecar")
	p.args = append(p.args, "--drain-delay", "6s", "--drain-timeout", "30s")
	d.restart("a-sidecar")

	// A client that writes all the time must not lose an answer before its connection is closed between two commands.
	var sent, answered atomic.Int64
	stopped := make(chan error, 1)
	busy := d.client("a")
	go func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for i := 0; ; i++ {
			<-tick.C
			sent.Add(1)
			if err := busy.Set(t.Context(), fmt.Sprint("busy", i), "v", 0).Err(); err != nil {
				stopped <- err
				return
			}
			answered.Add(1)
		}
	}()
	// Commands under way: they wait for a data center that is down, and get their answer anyway.
	d.kill("c-middleman")
	must(t, d.client("a").Set(t.Context(), "incomplete", "1", 0).Err())
	waiting := make(chan error, 1)
	waiter := d.client("a")
	must(t, waiter.Set(t.Context(), "mine", "1", 0).Err())
	go func() {
		n, err := waiter.Do(t.Context(), "CAUSAL", "WAIT", "all", 12000).Int()
		if err == nil && n != 0 {
			err = fmt.Errorf("WAIT answered %d, though a ring is down", n)
		}
		waiting <- err
	}()
	eventually(t, "the busy client to write", func() error {
		if answered.Load() < 20 {
			return fmt.Errorf("%d answers", answered.Load())
		}
		return nil
	})

	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	eventually(t, "the sidecar to say that it is not ready", func() error {
		status, _, err := p.get("/readyz")
		if err == nil && status != http.StatusServiceUnavailable {
			err = fmt.Errorf("/readyz: %d", status)
		}
		return err
	})
	served := 0
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline) && p.isServing() == nil; served++ {
		<-tick.C
		c := d.client("a")
		err := c.Set(t.Context(), fmt.Sprint("late", served), "v", 0).Err()
		_ = c.Close()
		if err != nil {
			t.Fatalf("a new connection was refused during the delay: %v", err)
		}
	}
	if served == 0 {
		t.Error("no new connection was tried while the sidecar still served")
	}
	select {
	case err := <-waiting:
		t.Fatalf("the command under way ended early: %v", err)
	default:
	}
	if err := <-waiting; err != nil {
		t.Errorf("the command under way was cut: %v", err)
	}
	if err := <-stopped; !strings.Contains(err.Error(), "EOF") && !strings.Contains(err.Error(), "refused") &&
		!strings.Contains(err.Error(), "reset") {
		t.Errorf("the busy client ended with %v", err)
	}
	if lost := sent.Load() - answered.Load(); lost != 1 { // the one that met a closed connection
		t.Errorf("%d commands have no answer, of %d", lost, sent.Load())
	}
	if err := <-p.ended; err != nil {
		t.Errorf("the sidecar ended with %v", err)
	}
	p.cmd = nil
}

func TestASecondProcessWithTheIdentityOfAMiddlemanIsRefusedAndHarmsNothing(t *testing.T) {
	d := deploy(t, nil)
	a, c := d.client("a"), d.client("c")
	must(t, a.Set(t.Context(), "before", "1", 0).Err())
	awaitValue(t, "c", c, "before", "1")

	first := d.procs["c-middleman"]
	rogue := &proc{name: "c-rogue", http: ports.ForTest(t), log: d.path("c-rogue.log")}
	rogue.args = []string{"middleman", "--config", d.configPath(), "--data-center", "c", "--listen-http", rogue.http,
		"--listen-grpc", ports.ForTest(t), "--storage-dir", d.path("c-rogue")}
	d.procs[rogue.name] = rogue
	d.start(rogue)
	eventually(t, "the second process to be refused", func() error {
		r, err := rogue.readiness()
		if err == nil && (r.Ready || r.State != contract.StateDuplicateIdentity) {
			err = fmt.Errorf("%+v", r)
		}
		return err
	})
	r, err := rogue.readiness()
	must(t, err)
	for _, want := range []string{"middleman-0@c", "instance", "started", "127.0.0.1"} {
		if !strings.Contains(r.Reason, want) {
			t.Errorf("the reason does not say %q: %s", want, r.Reason)
		}
	}
	if v, ok := rogue.metric(`causalstore_transport_duplicate_identity{`); !ok || v != 1 {
		t.Errorf("causalstore_transport_duplicate_identity of the second process: %v, %v", v, ok)
	}
	for i := range 50 {
		must(t, a.Set(t.Context(), fmt.Sprint("during", i), "1", 0).Err())
	}
	awaitValue(t, "c", c, "during49", "1")
	eventually(t, "the writes to be complete", func() error {
		n, err := a.Do(t.Context(), "CAUSAL", "WAIT", "all", 500).Int()
		if err == nil && n != 1 {
			err = fmt.Errorf("not yet")
		}
		return err
	})
	if r, err := first.readiness(); err != nil || !r.Ready {
		t.Errorf("the first process: %+v, %v", r, err)
	}
	// A restart of the first one is no second process.
	d.kill("c-middleman")
	d.restart("c-middleman")
	must(t, a.Set(t.Context(), "after", "1", 0).Err())
	awaitValue(t, "c", c, "after", "1")
	if r, err := rogue.readiness(); err != nil || r.State != contract.StateDuplicateIdentity {
		t.Errorf("the second process after the restart of the first: %+v, %v", r, err)
	}
}
