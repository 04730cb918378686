package session

import "github.com/causalstore/causalstore/sidecar/causal"

// count is an OpCount in progress.
type count struct {
	requests []uint64
	missing  int // replies
	keys     int64
}

// startCount asks every middleman of the ring of the own data center how many keys it holds.
func (s *Sidecar) startCount(c *call) {
	t := s.cfg.Topology
	c.count = &count{}
	for _, mm := range t.RingMiddlemen(t.RingOf(s.cfg.Self.DC)) {
		c.count.missing++
		id := s.requests.add(c, 0)
		c.count.requests = append(c.count.requests, id)
		s.Send(causal.Count{ID: id}.Message(s.cfg.Self, mm))
	}
}

func (s *Sidecar) handleCountReply(c *call, r causal.CountReply) {
	c.count.keys += int64(r.Keys)
	if c.count.missing--; c.count.missing == 0 {
		s.finish(c, Result{Count: c.count.keys})
	}
}
