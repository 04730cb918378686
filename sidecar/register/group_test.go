package register

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/causalstore/causalstore/e2e/etcdserver"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// host runs a member of a group with a disk in memory. A loop steps it, as the process of a coordinator does.
type host struct {
	id     group.ID
	g      *group.Group
	key    Key
	inputs chan func(causal.Now)
	stop   context.CancelFunc
	ended  chan struct{}
	peers  map[string]*host

	mu        sync.Mutex
	status    group.Status
	serving   bool
	led       []string // what it has begun with
	committed uint64
}

var started = time.Now()

func clock() causal.Now {
	return causal.Now{Mono: int64(time.Since(started) + time.Hour), WallMs: time.Now().UnixMilli()}
}

// startGroup starts members of one group, each with a connection of its own to the register.
func startGroup(t *testing.T, names []string, open func() Register) map[string]*host {
	t.Helper()
	all := map[string]*host{}
	for i, name := range names {
		h := &host{id: group.ID{Name: name, Volume: uint64(i + 1)}, inputs: make(chan func(causal.Now), 1024),
			ended: make(chan struct{}), peers: all}
		h.g = group.New(group.DefaultOptions(h.id), &group.Image{}, clock())
		h.key = open().Key("coordinator-0", func() { h.input(func(now causal.Now) { h.g.RegisterChanged(now) }) })
		t.Cleanup(h.key.Close)
		all[name] = h
	}
	for _, h := range all {
		ctx, stop := context.WithCancel(context.Background())
		h.stop = stop
		go h.run(ctx, names)
		t.Cleanup(h.kill)
	}
	return all
}

// input passes something to the member. What it cannot take in is lost.
func (h *host) input(f func(causal.Now)) {
	select {
	case h.inputs <- f:
	default:
	}
}

func (h *host) run(ctx context.Context, names []string) {
	var requests sync.WaitGroup
	defer close(h.ended)
	defer requests.Wait()
	h.g.SetDesired(clock(), group.Desired{Names: names})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-h.inputs:
			f(clock())
		case <-tick.C:
			h.g.Tick(clock())
		}
		for _, m := range h.g.Take(clock(), nil) {
			if to := h.peers[m.To.Name]; to != nil {
				to.input(func(now causal.Now) { to.g.Step(now, &m) })
			}
		}
		if writes := h.g.Writes(nil); len(writes) > 0 {
			h.g.Appended(clock(), writes[len(writes)-1].Index)
		}
		for _, op := range h.g.RegisterOps(nil) {
			requests.Go(func() {
				res := h.key.Do(ctx, op)
				h.input(func(now causal.Now) { h.g.RegisterDone(now, res) })
			})
		}
		h.observe()
	}
}

// observe makes what has happened known to the test.
func (h *host) observe() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.g.Events(nil) {
		switch e.Kind {
		case group.Lead:
			h.serving, h.led, h.committed = true, nil, e.Position
			for _, r := range e.Records {
				h.led = append(h.led, string(r.Data))
			}
		case group.Committed:
			h.committed = e.Position
		case group.Stop:
			h.serving = false
		}
	}
	h.status = h.g.Status()
}

// kill stops the member at once.
func (h *host) kill() {
	h.stop()
	<-h.ended
}

func (h *host) serves() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.serving
}

func (h *host) members() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.status.Config.Members)
}

// commit appends a record, and waits until it is committed.
func (h *host) commit(t *testing.T, text string) {
	t.Helper()
	positions := make(chan uint64, 1)
	h.input(func(now causal.Now) {
		if pos, err := h.g.Append(now, []byte(text)); err == nil {
			positions <- pos
		}
	})
	var pos uint64
	wait(t, text+" is appended", func() bool {
		select {
		case pos = <-positions:
		default:
		}
		return pos > 0
	})
	wait(t, text+" is committed", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.committed >= pos
	})
}

// successorOf waits until B or C serves without A: usually B, which acts first, unless both have to wait for the
// register.
func successorOf(t *testing.T, all map[string]*host) (next *host) {
	t.Helper()
	wait(t, "another member serves without A", func() bool {
		for _, name := range []string{"b", "c"} {
			if h := all[name]; h.serves() && h.members() == 2 {
				next = h
			}
		}
		return next != nil
	})
	return next
}

func TestAnotherMemberTakesOverWhenThePrimaryIsStopped(t *testing.T) {
	registers(t, func(t *testing.T, open func() Register) {
		all := startGroup(t, []string{"a", "b", "c"}, open)
		a := all["a"]
		wait(t, "A serves with three members", func() bool { return a.serves() && a.members() == 3 })
		a.commit(t, "one")
		a.kill()
		next := successorOf(t, all)
		next.mu.Lock()
		if len(next.led) != 1 || next.led[0] != "one" {
			t.Errorf("%s has begun with %q", next.id, next.led)
		}
		next.mu.Unlock()
		next.commit(t, "two")
		if res := newUser(t, open(), "coordinator-0").read(); res.Config.Primary != next.id ||
			len(res.Config.Members) != 2 {
			t.Errorf("the register holds %v", &res.Config)
		}
	})
}

// TestAGroupOutlivesItsPrimaryAndAServerOfEtcd loses what is in one zone: a member, and the leader of etcd or another
// server.
func TestAGroupOutlivesItsPrimaryAndAServerOfEtcd(t *testing.T) {
	servers := etcdserver.New(t, 3)
	o := Options{DataCenter: "eu", Metrics: &counts{}}
	o.Log, _ = newLogger(t)
	for _, s := range servers {
		s.Start()
		o.Etcd.Endpoints = append(o.Etcd.Endpoints, s.Endpoint)
	}
	all := startGroup(t, []string{"a", "b", "c"}, func() Register {
		r, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		return r
	})
	a := all["a"]
	wait(t, "A serves with three members", func() bool { return a.serves() && a.members() == 3 })
	a.commit(t, "one")
	leader := servers[0]
	for _, s := range servers {
		if status, err := adminOf(t, s).Status(t.Context(), s.Endpoint); err == nil &&
			status.Leader == status.Header.MemberId {
			leader = s
		}
	}
	lost := time.Now()
	leader.Signal(syscall.SIGSTOP) // connections to it stay, as when a zone vanishes
	a.kill()
	successorOf(t, all).commit(t, "two")
	t.Logf("the group has committed a record %v after the loss", time.Since(lost))
}
