package session

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// PROTOCOL VAL-11: the log has one write, and not the value.
func TestAnEvictedOwnWriteThatAHomeDoesNotHaveIsAwaited(t *testing.T) {
	r, keys := newHomesRig(t, func(c *Config) { c.Types = value.Shipped() })
	change := value.ChangeOf(causal.Record{})
	change.Add(value.Hash, "f", "1")
	found := causal.Record{Version: ofHome(0, 1500), Value: change.Value()}
	for _, ss := range r.s.sessions {
		c := &call{session: ss, op: Op{Kind: OpGet, Key: keys[0]}, home: &homeRead{found: &causal.GetReply{Record: found}},
			own: &ownWrite{key: keys[0], evicted: true, value: causal.Value{Type: causal.Collection}}}
		r.s.finishRows(r.now, c, &rowsElsewhere{joined: found})
		if c.finished || !c.replied {
			t.Errorf("finished %v; it is read again: %v", c.finished, c.replied)
		}
	}
}

// PROTOCOL HOV-7.
func TestWhatIsIncompleteOfAValueAtTheHomeIsFollowed(t *testing.T) {
	r, keys := newHomesRig(t)
	own, foreign := ofHome(0, 1400), causal.Version{HLC: at(1500), Origin: 17}
	for _, ss := range r.s.sessions {
		reply := causal.HomeReply{Key: keys[0], Record: record(foreign), Incomplete: own.HLC}
		if !r.s.takeOver(r.now, ss, &reply) {
			t.Fatal("it is not taken over")
		}
		if ss.local.at(own.Origin) != own.HLC || ss.local.at(foreign.Origin) != 0 {
			t.Errorf("the session has read %v at homes", ss.local.upTo)
		}
	}
}
