package node

import (
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/topology"
)

// leadingMachine is a machine of which only the leadership matters, and that sends what it is told to. Nothing else of
// it is used.
type leadingMachine struct {
	groupMachine
	leadership causal.Leadership
	messages   []causal.Message
}

func (m *leadingMachine) NextTick(causal.Now) int64                             { return causal.Never }
func (m *leadingMachine) Writes(dst []group.Entry) []group.Entry                { return dst }
func (m *leadingMachine) RegisterOps(dst []group.RegisterOp) []group.RegisterOp { return dst }
func (m *leadingMachine) NeedsReset() bool                                      { return false }
func (m *leadingMachine) Failure() error                                        { return nil }

func (m *leadingMachine) Take(dst []causal.Message) []causal.Message {
	dst = append(dst, m.messages...)
	m.messages = nil
	return dst
}

// slowNetwork blocks in each call of Send, until it is allowed to go on.
type slowNetwork struct{ sending, goOn chan struct{} }

func (n slowNetwork) Send(causal.Message) {
	n.sending <- struct{}{}
	<-n.goOn
}

func (n slowNetwork) Close() error { return nil }

// A primary whose lease ends for a moment drops what is sent to the node meanwhile, so everybody has to hear that it
// was so. That holds too if the goroutine that announces it gets to it only when the lease is back, since it is busy
// with sending.
func TestEachEndOfALeadershipIsAnnouncedAlsoIfTheLeadershipGoesOn(t *testing.T) {
	first, second := causal.Leadership{Epoch: 1, Life: 1}, causal.Leadership{Epoch: 2, Life: 1}
	none := causal.Leadership{}
	for _, c := range []struct {
		name             string
		meanwhile, heard []causal.Leadership // of the machine while the goroutine is busy, and what it announces then
	}{
		{"it goes on", []causal.Leadership{none, first}, []causal.Leadership{none, first}},
		{"it ends", []causal.Leadership{none}, []causal.Leadership{none}},
		{"it ends twice", []causal.Leadership{none, first, none}, []causal.Leadership{none}},
		{"it goes on after two ends", []causal.Leadership{none, first, none, first}, []causal.Leadership{none, first}},
		{"another one follows", []causal.Leadership{none, second}, []causal.Leadership{none, second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			net := slowNetwork{make(chan struct{}), make(chan struct{})}
			var heard []causal.Leadership
			h := newGroupHost(groupOptions[*leadingMachine]{self: topology.Node{Part: topology.Coordinator},
				clock: NewClock(), net: net, logger: discard,
				leadership:   func(m *leadingMachine) causal.Leadership { return m.leadership },
				onLeadership: func(l causal.Leadership) { heard = append(heard, l) }})
			h.m = &leadingMachine{}
			h.writer = process.NewLogWriter(h.m, false, causal.Mutations{})
			become := func(l causal.Leadership) { h.step(func(_ causal.Now, m *leadingMachine) { m.leadership = l }) }
			become(first)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				h.step(func(_ causal.Now, m *leadingMachine) {
					m.messages = []causal.Message{{Kind: causal.KindVectors}}
				})
			}()
			<-net.sending
			for _, l := range c.meanwhile {
				become(l)
			}
			net.goOn <- struct{}{}
			<-sent
			if want := slices.Concat([]causal.Leadership{first}, c.heard); !slices.Equal(heard, want) {
				t.Errorf("announced %v, want %v", heard, want)
			}
		})
	}
}
