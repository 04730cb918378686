package session

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// count is an OpCount in progress.
type count struct {
	requests []uint64
	shards   []topology.Node // that these are with
	missing  int             // replies
	keys     int64
}

// countMargin is how much longer than a read a shard may take to count its keys.
const countMargin = time.Second

// startCount asks every middleman of a ring how many keys it holds: of the ring whose farthest shard is nearest, among
// those that were not tried yet. Each ring has all keys, give or take the writes that are on their way.
func (s *Sidecar) startCount(now causal.Now, c *call) {
	rings := s.readable
	if rings&^c.tried != 0 {
		rings &^= c.tried
	} else {
		c.tried = 0
	}
	ring, _ := s.routes.NearestAll(now, s.slotOfEachShard(), rings)
	c.tried = c.tried.With(ring)
	c.count = &count{}
	var timeout time.Duration
	for _, mm := range s.cfg.Topology.RingMiddlemen(ring) {
		c.count.missing++
		id := s.requests.add(c, 0)
		c.count.requests, c.count.shards = append(c.count.requests, id), append(c.count.shards, mm)
		timeout = max(timeout, s.routes.Timeout(mm.DC))
		s.Send(causal.Count{ID: id}.Message(s.cfg.Self, mm))
	}
	c.retryAt = now.Mono + int64(countMargin+timeout)
}

// retryCount asks another ring.
func (s *Sidecar) retryCount(now causal.Now, c *call) {
	s.dropRequests(c.count.requests)
	s.stats.Retries++
	s.startCount(now, c)
}

func (s *Sidecar) handleCountReply(now causal.Now, c *call, from topology.Node, r causal.CountReply) {
	if r.Err != causal.OK {
		if r.Err == causal.ErrDataLost {
			s.routes.NoteDataLost(now, from)
		}
		s.dropRequests(c.count.requests)
		c.retryAt = now.Mono + int64(unusableDelay)
		return
	}
	c.count.keys += int64(r.Keys)
	if c.count.missing--; c.count.missing == 0 {
		s.finish(c, Result{Count: c.count.keys})
	}
}

// countAgain sends the request that is with a shard again, unless it was answered.
func (s *Sidecar) countAgain(c *call, shard topology.Node) {
	for i, id := range c.count.requests {
		if _, waits := s.requests.byID[id]; waits && c.count.shards[i] == shard {
			s.Send(causal.Count{ID: id}.Message(s.cfg.Self, shard))
		}
	}
}
