package session

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A cache or a middleman that has not answered a read in time is silent or slow (PROTOCOL RTE-4). From a
// silent one nothing has come for as long as it may take to answer: all reads that are with it are sent elsewhere. A
// slow one answers others, and the read is probably in its queue. If all such reads were sent elsewhere, those who have
// to answer them would have the load of all, and be late as well; and the slow one would work on answers that nobody
// takes. So few of them are sent elsewhere, the oldest first, since one of them may be lost; the others wait.

const (
	// movesPerWait is how many reads that are late at a slow node may be sent elsewhere in the time that it may take to
	// answer.
	movesPerWait = 16
	// answersPerMove is how many answers of a node allow one more.
	answersPerMove = 16
	// maxMoves bounds what answers allow.
	maxMoves = 256
	// lateInterval is how often a late read is looked at again.
	lateInterval = 50 * time.Millisecond
)

// reader is what the sidecar knows of how a cache or a middleman answers reads.
type reader struct {
	heardAt int64 // monotonic: when the last sign of it has come
	answers int   // since the last of them that has allowed a move
	moves   int   // how many late reads may be sent elsewhere; negative after one of many keys
	renewAt int64 // monotonic
}

// readers are the caches and middlemen that have been heard of.
type readers map[topology.Node]*reader

func (rs readers) of(n topology.Node) *reader {
	r := rs[n]
	if r == nil {
		r = &reader{heardAt: -causal.Never}
		rs[n] = r
	}
	return r
}

// heard takes that a message has come from a node. Anything shows that a cache goes on: it answers from memory, in
// order. A middleman may answer pings while its storage hangs, so only a value that it has read does.
func (rs readers) heard(now causal.Now, m *causal.Message) {
	answers := m.Kind == causal.KindGetReply && (m.From.Part == topology.Cache || m.GetReply().Err == causal.OK)
	if !answers && m.From.Part != topology.Cache {
		return
	}
	r := rs.of(m.From)
	r.heardAt = now.Mono
	if !answers {
		return
	}
	if r.answers++; r.answers == answersPerMove {
		r.answers, r.moves = 0, min(r.moves+1, maxMoves)
	}
}

// isSilent reports whether nothing has come from a node for a time.
func (rs readers) isSilent(now causal.Now, n topology.Node, wait int64) bool {
	r := rs[n]
	return r == nil || now.Mono-wait >= r.heardAt
}

// takeMove reports whether a late read of a number of keys may be sent elsewhere.
func (r *reader) takeMove(now causal.Now, wait int64, keys int) bool {
	if now.Mono >= r.renewAt {
		r.moves, r.renewAt = max(r.moves, movesPerWait), now.Mono+wait
	}
	if r.moves <= 0 {
		return false
	}
	r.moves -= keys
	return true
}

// nextLook returns when a read that has waited for a time, and goes on waiting, is looked at again: a silent node is
// noticed at once.
func (rs readers) nextLook(now causal.Now, n topology.Node, wait int64) int64 {
	return max(now.Mono+1, min(now.Mono+int64(lateInterval), rs.of(n).heardAt+wait))
}

// noteLate records that a cache or a middleman has not answered a read within a time. A slow cache is still asked
// first: it answers far more than the shards behind it could. A slow middleman is not, if another ring can be read.
func (s *Sidecar) noteLate(now causal.Now, n topology.Node, wait int64) (silent bool) {
	silent = s.readers.isSilent(now, n, wait)
	switch {
	case silent:
		s.timedOut(now, n)
	case n.Part == topology.Middleman:
		s.routes.AnsweredLate(now, n)
	}
	return silent
}

// waits reports whether a get that is late goes on waiting for the node that it has asked, which is slow.
func (s *Sidecar) waits(now causal.Now, c *call) bool {
	if c.lost {
		s.timedOut(now, c.target)
		return false
	}
	if s.noteLate(now, c.target, c.wait) || s.routes.OutOfReach(now, c.slot, s.readable) ||
		s.readers.of(c.target).takeMove(now, c.wait, 1) {
		return false
	}
	c.retryAt = s.readers.nextLook(now, c.target, c.wait)
	return true
}
