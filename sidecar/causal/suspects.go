package causal

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/topology"
)

// Suspects are nodes that did not answer a request in time. Requests go round them, and they get pings until they
// answer one, so a node that is dead costs one time-out and not one for every request (PROTOCOL RTE-6).
//
// Suspicion only says who is asked first. Nothing that a node may be asked for is forbidden to those that are asked
// instead, so a wrong suspicion costs time, and never an answer that is too old.
type Suspects struct {
	list   []*suspect // few, so they are searched one by one
	lastID uint64     // of a ping
}

// suspect is a node that did not answer.
type suspect struct {
	node     topology.Node
	until    int64  // monotonic: it is avoided at least until then
	firstID  uint64 // of the first ping since the suspicion began; 0: none was sent yet
	answered bool   // a ping that was sent since then
	pings    int    // since the suspicion began, or the link came up
	pingAt   int64  // monotonic: when the next ping is due
}

const (
	// firstPingInterval is the wait after the first ping; later ones wait longer, up to maxPingInterval.
	firstPingInterval = 100 * time.Millisecond
	maxPingInterval   = time.Second
)

func (s *Suspects) find(n topology.Node) *suspect {
	for _, x := range s.list {
		if x.node == n {
			return x
		}
	}
	return nil
}

// Add makes a node suspect, until it answers a ping and for at least a time. It reports whether the node was not
// suspect before.
func (s *Suspects) Add(now Now, n topology.Node, atLeast time.Duration) bool {
	until := now.Mono + int64(atLeast)
	x := s.find(n)
	if x == nil {
		s.list = append(s.list, &suspect{node: n, until: until, pingAt: now.Mono})
		return true
	}
	x.until = max(x.until, until)
	if x.answered { // it answers pings, and yet not what it was asked
		x.answered, x.firstID, x.pings, x.pingAt = false, 0, 0, now.Mono
	}
	return false
}

// AvoidFor makes a node suspect for a time, also if it answers pings.
func (s *Suspects) AvoidFor(now Now, n topology.Node, d time.Duration) {
	until := now.Mono + int64(d)
	if x := s.find(n); x != nil {
		x.until = max(x.until, until)
		return
	}
	s.list = append(s.list, &suspect{node: n, until: until, answered: true})
}

// Has reports whether a node is suspect.
func (s *Suspects) Has(now Now, n topology.Node) bool {
	if len(s.list) == 0 {
		return false
	}
	x := s.find(n)
	return x != nil && (!x.answered || now.Mono < x.until)
}

// Answered takes the answer to a ping. Answers to pings from before the suspicion say nothing.
func (s *Suspects) Answered(now Now, n topology.Node, id uint64) {
	x := s.find(n)
	if x == nil || x.firstID == 0 || id < x.firstID || id > s.lastID {
		return
	}
	x.answered = true
	if now.Mono >= x.until {
		s.remove(x)
	}
}

func (s *Suspects) remove(x *suspect) {
	s.list = slices.DeleteFunc(s.list, func(y *suspect) bool { return x == y })
}

// LinkUp makes the next ping to a node due: it can be reached again.
func (s *Suspects) LinkUp(now Now, n topology.Node) {
	if x := s.find(n); x != nil {
		x.pings, x.pingAt = 0, now.Mono
	}
}

// Tick sends the pings that are due, and forgets the nodes that are suspect no longer.
func (s *Suspects) Tick(now Now, self topology.Node, send func(Message)) {
	if len(s.list) == 0 {
		return
	}
	s.list = slices.DeleteFunc(s.list, func(x *suspect) bool { return x.answered && now.Mono >= x.until })
	for _, x := range s.list {
		if x.answered || now.Mono < x.pingAt {
			continue
		}
		s.lastID++
		if x.firstID == 0 {
			x.firstID = s.lastID
		}
		send(Ping{ID: s.lastID}.Message(self, x.node))
		x.pingAt = now.Mono + Backoff(firstPingInterval, maxPingInterval, x.pings, self.Index)
		x.pings++
	}
}

// NextTick returns when Tick has something to do next.
func (s *Suspects) NextTick() int64 {
	next := Never
	for _, x := range s.list {
		if x.answered {
			next = min(next, x.until)
		} else {
			next = min(next, x.pingAt)
		}
	}
	return next
}

// SetTopology forgets the nodes that a topology does not have.
func (s *Suspects) SetTopology(t *topology.Topology) {
	s.list = slices.DeleteFunc(s.list, func(x *suspect) bool {
		dc := &t.DCs[x.node.DC]
		return x.node.Part == topology.Cache && x.node.Index >= uint64(dc.Caches) ||
			x.node.Part == topology.Middleman && x.node.Index >= uint64(dc.RunningMiddlemen())
	})
}
