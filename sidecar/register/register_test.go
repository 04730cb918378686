package register

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/e2e/etcdserver"
	"github.com/causalstore/causalstore/lab/capture"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds the wait for something that must happen.
const patience = time.Minute

// counts are Metrics.
type counts struct {
	connected, disconnected, unknown atomic.Int64
}

func (c *counts) RequestDone(_ bool, o group.Outcome, _ time.Duration) {
	if o == group.Unknown {
		c.unknown.Add(1)
	}
}
func (c *counts) Connected()    { c.connected.Add(1) }
func (c *counts) Disconnected() { c.disconnected.Add(1) }

// user is a member with its Key.
type user struct {
	t       *testing.T
	key     Key
	changes chan struct{} // holds one
	seen    *counts
	log     *capture.Buffer
	lastID  uint64
}

func newUser(t *testing.T, r Register, name string) *user {
	u := &user{t: t, changes: make(chan struct{}, 1)}
	u.key = r.Key(name, func() {
		select {
		case u.changes <- struct{}{}:
		default:
		}
	})
	t.Cleanup(u.key.Close)
	return u
}

// newLogger returns a logger, and what it has logged, which a test that fails shows.
func newLogger(t *testing.T) (*slog.Logger, *capture.Buffer) {
	l := &capture.Buffer{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(l)
		}
	})
	return slog.New(slog.NewTextHandler(l, nil)), l
}

// mustBeRefused waits until no connection comes about for a reason, and checks that nothing can be read.
func (u *user) mustBeRefused(reason string) {
	u.t.Helper()
	wait(u.t, "refused with "+reason, func() bool { return strings.Contains(u.log.String(), reason) })
	if res := u.do(group.RegisterOp{}); res.Outcome != group.Failed || u.seen.connected.Load() > 0 {
		u.t.Errorf("a read returns %+v after %d connections", res, u.seen.connected.Load())
	}
}

// connect returns a user of a register of its own in etcd.
func connect(t *testing.T, servers ...*etcdserver.Server) *user {
	t.Helper()
	o := Options{DataCenter: "eu"}
	for _, s := range servers {
		o.Etcd.Endpoints = append(o.Etcd.Endpoints, s.Endpoint)
	}
	return open(t, o)
}

func open(t *testing.T, o Options) *user {
	t.Helper()
	seen := &counts{}
	logger, log := newLogger(t)
	o.Metrics, o.Log = seen, logger
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	u := newUser(t, r, "coordinator-0")
	u.seen, u.log = seen, log
	return u
}

func (u *user) do(op group.RegisterOp) group.RegisterResult {
	u.lastID++
	op.ID = u.lastID
	res := u.key.Do(context.Background(), op)
	if res.ID != op.ID {
		u.t.Errorf("the answer to request %d has the number %d", op.ID, res.ID)
	}
	return res
}

// read reads as soon as that is possible.
func (u *user) read() group.RegisterResult {
	u.t.Helper()
	var res group.RegisterResult
	wait(u.t, "a read", func() bool {
		res = u.do(group.RegisterOp{})
		return res.Outcome == group.Done
	})
	return res
}

// swap proposes c in place of what was read.
func (u *user) swap(was group.RegisterResult, c group.Config) group.Outcome {
	return u.do(group.RegisterOp{Swap: true, Cluster: was.Cluster, Expect: was.Config.Nonce, Config: c}).Outcome
}

// mustSwap swaps c in, whatever is there.
func (u *user) mustSwap(c group.Config) {
	u.t.Helper()
	if o := u.swap(u.read(), c); o != group.Done {
		u.t.Fatalf("the swap has the outcome %d", o)
	}
}

// mustHold checks what the register holds.
func (u *user) mustHold(want group.Config) {
	u.t.Helper()
	if diff := cmp.Diff(want, u.read().Config); diff != "" {
		u.t.Errorf("(-want +got)\n%s", diff)
	}
}

// wait waits for a condition.
func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// config returns a configuration with an epoch, by an author.
func config(epoch, author uint64) group.Config {
	p := group.ID{Name: "p", Volume: 7}
	return group.Config{Group: 7, Epoch: epoch, Members: []group.ID{p, {Name: "q", Volume: 8}}, Primary: p,
		Nonce: group.Nonce{Volume: author, Life: 1, Number: epoch}}
}

// registers are those that all must pass the same tests.
func registers(t *testing.T, test func(t *testing.T, open func() Register)) {
	t.Run("memory", func(t *testing.T) {
		m := NewMemory()
		test(t, func() Register { return m })
	})
	t.Run("etcd", func(t *testing.T) {
		s := etcdserver.Start(t)
		test(t, func() Register {
			log, _ := newLogger(t)
			r, err := Open(Options{Etcd: endpoints(s.Endpoint), DataCenter: "eu", Metrics: &counts{}, Log: log})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Close() })
			return r
		})
	})
}

func TestARegisterHoldsWhatWasSwappedIn(t *testing.T) {
	registers(t, func(t *testing.T, open func() Register) {
		p := newUser(t, open(), "coordinator-0")
		nothing := p.read()
		if nothing.Found || nothing.Cluster == "" {
			t.Fatalf("an empty register returns %+v", nothing)
		}
		if o := p.swap(nothing, config(1, 7)); o != group.Done {
			t.Fatalf("the first swap has the outcome %d", o)
		}
		got := p.read()
		if diff := cmp.Diff(config(1, 7), got.Config); !got.Found || got.Cluster != nothing.Cluster || diff != "" {
			t.Fatalf("%+v\n%s", got, diff)
		}
		other := newUser(t, open(), "coordinator-1")
		if res := other.read(); res.Found || res.Cluster != nothing.Cluster {
			t.Errorf("another group reads %+v", res)
		}
	})
}

// Its proposal was made without what the register holds now, though that was read since.
func TestASwapThatExpectsSomethingElseThanIsThereFails(t *testing.T) {
	registers(t, func(t *testing.T, open func() Register) {
		p, q := newUser(t, open(), "coordinator-0"), newUser(t, open(), "coordinator-0")
		was := p.read()
		q.mustSwap(config(1, 8))
		if now := p.read(); now.Config.Epoch != 1 {
			t.Fatalf("it holds %+v", now)
		}
		if o := p.swap(was, config(2, 7)); o != group.Failed {
			t.Errorf("the swap has the outcome %d", o)
		}
		q.mustHold(config(1, 8))
	})
}

func TestOfTwoSwapsOneIsDone(t *testing.T) {
	registers(t, func(t *testing.T, open func() Register) {
		p, q := newUser(t, open(), "coordinator-0"), newUser(t, open(), "coordinator-0")
		for epoch := uint64(1); epoch <= 3; epoch++ {
			readP, readQ := p.read(), q.read()
			if o := q.swap(readQ, config(epoch, 8)); o != group.Done {
				t.Fatalf("the swap of Q has the outcome %d", o)
			}
			if o := p.swap(readP, config(epoch, 7)); o != group.Failed {
				t.Errorf("the swap of P has the outcome %d, although the value had changed", o)
			}
			p.mustHold(config(epoch, 8))
		}
	})
}

func TestASwapInAnotherClusterFails(t *testing.T) {
	registers(t, func(t *testing.T, open func() Register) {
		p := newUser(t, open(), "coordinator-0")
		was := p.read()
		was.Cluster = rand.Text()
		if o := p.swap(was, config(1, 7)); o != group.Failed {
			t.Errorf("it has the outcome %d", o)
		}
		if p.read().Found {
			t.Error("it was done")
		}
	})
}

func TestAChangeIsToldToTheOthers(t *testing.T) {
	registers(t, func(t *testing.T, open func() Register) {
		p, q := newUser(t, open(), "coordinator-0"), newUser(t, open(), "coordinator-0")
		q.read() // it is connected now, and was told so
		for epoch := uint64(1); epoch <= 3; epoch++ {
			p.mustSwap(config(epoch, 7))
			wait(t, "Q is told, and reads the new value", func() bool {
				select {
				case <-q.changes:
					return q.read().Config.Epoch == epoch
				default:
					return false
				}
			})
		}
	})
}

func TestAMemoryFailsAsItIsTold(t *testing.T) {
	m := NewMemory()
	p := newUser(t, m, "coordinator-0")
	was := p.read()
	m.SetFault(Away)
	if o := p.swap(was, config(1, 7)); o != group.Unknown {
		t.Errorf("away: a swap has the outcome %d", o)
	}
	if res := p.do(group.RegisterOp{}); res.Outcome != group.Failed {
		t.Errorf("away: a read returns %+v", res)
	}
	m.SetFault(AnswersLost)
	if o := p.swap(was, config(1, 7)); o != group.Unknown {
		t.Errorf("answers lost: a swap has the outcome %d", o)
	}
	m.SetFault(NoFault)
	p.mustHold(config(1, 7))
}

func endpoints(all ...string) contract.EtcdRegister { return contract.EtcdRegister{Endpoints: all} }

func TestAFileKeepsWhatARegisterHolds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "register.json")
	var cluster string
	for round := range uint64(3) {
		m, err := OpenFile(file)
		if err != nil {
			t.Fatal(err)
		}
		key := m.Key("k", func() {})
		res := key.Do(t.Context(), group.RegisterOp{})
		if round > 0 && (!res.Found || res.Config.Epoch != round || res.Cluster != cluster) {
			t.Fatalf("start %d finds %+v", round, res)
		}
		cluster = res.Cluster
		if got := key.Do(t.Context(), group.RegisterOp{Swap: true, Cluster: cluster, Expect: res.Config.Nonce,
			Config: config(round+1, 7)}); got.Outcome != group.Done {
			t.Fatalf("swap %d: %+v", round, got)
		}
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(file); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("a damaged file: %v", err)
	}
}
