package node

import (
	"sync"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// getLog is a network that notes how keys are read.
type getLog struct {
	echo
	mu    sync.Mutex
	atCut []bool
}

func (l *getLog) Send(m causal.Message) {
	if m.Kind == causal.KindGet {
		l.mu.Lock()
		l.atCut = append(l.atCut, m.Get().Snapshot)
		l.mu.Unlock()
	}
	l.echo.Send(m)
}

func (l *getLog) take() []bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.atCut
	l.atCut = nil
	return all
}

// What is read at a cut may be older than what another command has just written.
func TestAPipelineThatHoldsItsKeysReadsTheirNewestVersionsTogether(t *testing.T) {
	topo, err := topology.Parse([]byte("epoch: 1\ndataCenters: [{name: a}]\nrings: [{name: r, dataCenters: [a]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan func(), 2)
	l := &getLog{echo: echo{answer: func(f func()) { asked <- f }}}
	config := session.DefaultConfig(topo, topology.Node{Part: topology.Sidecar, Index: 1})
	config.Level, config.SnapshotInterval, config.SnapshotLead = causal.Snapshot, time.Millisecond, 0
	l.to = NewSidecar(SidecarOptions{Config: config, Clock: NewClock(), Net: l, Scope: ScopePod})
	defer l.to.Close()
	complete := causal.Vectors{
		Entries: []causal.VectorEntry{{Origin: 1, Last: topology.Origin(topo.Origins()),
			SV: causal.HLCAt(time.Now().UnixMilli())}},
	}
	l.to.Handle([]causal.Message{complete.Message(topo.Leader(0), l.to.ID())})
	c := connect(t, l.to)
	for deadline := time.Now().Add(10 * time.Second); ; {
		l.to.step(func(now causal.Now, m *session.Sidecar) { m.Tick(now) })
		go func() { (<-asked)() }()
		if _, err := c.Get(t.Context(), "until there is a cut"); err != nil {
			t.Fatal(err)
		}
		if atCut := l.take(); atCut[0] {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no cut")
		}
	}
	for _, holds := range []bool{false, true} {
		if holds {
			defer c.Lock("a", "b")()
		}
		go func() { // no answer before both have been asked
			first, second := <-asked, <-asked
			first()
			second()
		}()
		getEach(t, c, "a", "b")
		if atCut := l.take(); len(atCut) != 2 || atCut[0] == holds || atCut[1] == holds {
			t.Errorf("the session holds its keys: %v; it reads at a cut: %v", holds, atCut)
		}
	}
}
