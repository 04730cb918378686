package session

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// WaitsFor is what an operation in progress waits for.
type WaitsFor uint8

// What operations wait for.
const (
	WaitsForReader      WaitsFor = iota // the answer of a cache or a shard
	WaitsForHome                        // the answer of the home of a key that is read
	WaitsForCoordinator                 // the answer of the coordinator that has got a write
	WaitsForLeadership                  // the coordinator that has got a write, which is away, to serve again
	WaitsForUsable                      // a coordinator that takes a write: none is usable, or the home refuses it
	WaitsForEarlier                     // earlier writes of the session
	WaitsForPast                        // what the session has seen to be in every ring, or in one that it may use
	WaitsForQuiet                       // keys that are written while several are read: all are read again
	WaitsForForeign                     // a write of another data center to be in every ring, before an update
	WaitsForLocks                       // keys that are kept for a commit of several homes
	waitsForEnd
)

func (w WaitsFor) String() string {
	return [...]string{"reader", "home", "coordinator", "leadership", "usable", "earlier", "past", "quiet",
		"foreign", "locks"}[w]
}

// Describe says what is waited for.
func (w WaitsFor) Describe() string {
	return [...]string{"the answer of a cache or a shard", "the answer of the home of the key",
		"the answer of the coordinator that has got the write", "a coordinator that has got the write to serve again",
		"a coordinator that takes the write", "earlier writes of the session",
		"a ring that has all that the session has seen", "a moment in which nobody writes the keys",
		"a write of another data center to be in every ring", "a commit of several keys to release the key"}[w]
}

// AllWaits are all that operations wait for.
func AllWaits() (all []WaitsFor) {
	for w := range waitsForEnd {
		all = append(all, w)
	}
	return all
}

// Wait is an operation in progress, and what it waits for.
type Wait struct {
	Op *Op
	// Taken is how long it has taken so far.
	Taken time.Duration
	For   WaitsFor
	// On is the part that is to answer, or to become usable; its Part is topology.PartNone if there is none.
	On topology.Node
}

// EachWait calls f for each operation that has taken longer than a time.
func (s *Sidecar) EachWait(now causal.Now, longer time.Duration, f func(Wait)) {
	for _, c := range s.calls {
		if taken := time.Duration(now.Mono - c.startedAt); !c.finished && taken > longer {
			w := Wait{Op: &c.op, Taken: taken}
			w.For, w.On = s.waitOf(now, c)
			f(w)
		}
	}
}

// waitOf returns what a call waits for, and the node that it has asked.
func (s *Sidecar) waitOf(now causal.Now, c *call) (WaitsFor, topology.Node) {
	switch c.op.Kind {
	case OpPut:
		return s.waitOfPut(now, c)
	case OpGet:
		switch h := c.home; {
		case h == nil:
		case h.apart != WaitsForReader: // it has read again since
			return h.apart, topology.Node{}
		case !h.answered:
			return WaitsForHome, s.homeOf(c.slot)
		}
	case OpMGet:
		if is, n := s.waitOfKeys(c); is != WaitsForReader {
			return is, n
		}
		if c.mget.phase == mgetAwaitsCut {
			return WaitsForPast, topology.Node{}
		}
		return WaitsForReader, topology.Node{} // it asks several
	case OpScan:
		if c.target.Part == topology.Coordinator {
			return WaitsForHome, c.target
		}
	case OpWait, OpResume:
		return WaitsForPast, topology.Node{}
	}
	return WaitsForReader, c.target
}

// waitOfKeys returns what an MGET waits for at the homes of its keys; WaitsForReader: nothing.
func (s *Sidecar) waitOfKeys(c *call) (WaitsFor, topology.Node) {
	h := &c.mget.atHome
	switch {
	case c.mget.apart != WaitsForReader: // it has read again since
		return c.mget.apart, topology.Node{}
	case h.pending == 0 && h.retryAt == 0:
		return WaitsForReader, topology.Node{}
	}
	for i, id := range h.requests {
		if _, asked := s.requests.byID[id]; asked {
			return WaitsForHome, s.homeOf(topology.SlotOf(c.op.Keys[i]))
		}
	}
	return WaitsForHome, topology.Node{}
}

func (s *Sidecar) waitOfPut(now causal.Now, c *call) (WaitsFor, topology.Node) {
	p := &c.session.pipeline
	switch {
	case c.isLocking():
		return WaitsForLocks, c.locks.asked()
	case c.put.locked:
		return WaitsForLocks, s.homeOf(c.slot)
	case c.put.waiting:
		return WaitsForLeadership, c.target
	case !c.put.refused:
		return WaitsForCoordinator, c.target
	}
	first := c
	for _, r := range p.refused {
		if r.opCount < first.opCount {
			first = r
		}
	}
	if len(p.refused) < p.unanswered || first != c {
		return WaitsForEarlier, topology.Node{}
	}
	if s.awaitsPast(c.session, c.slot) {
		return WaitsForPast, topology.Node{}
	}
	n, _ := s.chooseCoordinator(now, c.session, c.slot)
	return WaitsForUsable, n
}
