package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

// brittleMachine panics at a ping with the id 2.
type brittleMachine struct{ handled int }

func (b *brittleMachine) Step(_ causal.Now, m *causal.Message) {
	if m.Ping().ID == 2 {
		panic("index out of range")
	}
	b.handled++
}
func (*brittleMachine) Tick(causal.Now)                            {}
func (*brittleMachine) NextTick(causal.Now) int64                  { return causal.Never }
func (*brittleMachine) Take(dst []causal.Message) []causal.Message { return dst }

func TestAMachineThatPanicsEndsTheProcessAndSaysWhatItHandled(t *testing.T) {
	self, from := topology.Node{Part: topology.Middleman, Index: 3}, topology.Node{Part: topology.Cache, DC: 1}
	m := &brittleMachine{}
	h := newHost(self, func() causal.Now { return causal.Now{Mono: 1} }, transport.NewLocal(nil), m)
	defer func() {
		said := fmt.Sprint(recover())
		for _, want := range []string{self.String(), "ping", from.String(), "index out of range", "report it"} {
			if !strings.Contains(said, want) {
				t.Errorf("it ends with %q, without %q", said, want)
			}
		}
		if m.handled != 1 {
			t.Errorf("%d messages were handled; the process must end at the second", m.handled)
		}
	}()
	h.Handle([]causal.Message{causal.Ping{ID: 1}.Message(from, self), causal.Ping{ID: 2}.Message(from, self),
		causal.Ping{ID: 3}.Message(from, self)})
	t.Error("the process goes on")
}
