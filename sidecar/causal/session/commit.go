package session

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A commit is a put of several keys, of which the home accepts all or none. It has one place among the session's puts,
// and is sent, sent again and given up as a put of one key.

// refusesCommit returns why a commit is not sent.
func (s *Sidecar) refusesCommit(c *call) causal.ErrCode {
	if err := causal.CheckCommit(c.op.Commit); err != causal.OK {
		return err
	}
	for i := range c.op.Commit {
		if !s.cfg.Types.Accepts(&c.op.Commit[i].Record.Value) {
			return causal.ErrType
		}
	}
	switch {
	case !s.coordinators.commits[s.homeOf(topology.SlotOf(c.op.Commit[0].Key))],
		!s.hasOneHome(c.op.Commit) && !s.knowLocks(c.op.Commit):
		return causal.ErrNotFound
	case !slices.ContainsFunc(c.op.Commit, func(k causal.CommitKey) bool { return !k.ReadOnly }):
		return causal.ErrTooLarge
	}
	return causal.OK
}

// CommitsInOrder returns how many of the first keys a commit takes in order: those that have one home, which is known
// to take commits.
func (s *Sidecar) CommitsInOrder(keys []string) int {
	home, n := s.homeOf(topology.SlotOf(keys[0])), 1
	for n < len(keys) && s.coordinators.commits[home] && s.homeOf(topology.SlotOf(keys[n])) == home {
		n++
	}
	return n
}

// hasOneHome reports whether keys have the same home.
func (s *Sidecar) hasOneHome(keys []causal.CommitKey) bool {
	first := s.homeOf(topology.SlotOf(keys[0].Key))
	return !slices.ContainsFunc(keys, func(k causal.CommitKey) bool {
		return s.homeOf(topology.SlotOf(k.Key)) != first
	})
}

// knowLocks reports whether all homes of some keys are known to take part in commits of several.
func (s *Sidecar) knowLocks(keys []causal.CommitKey) bool {
	return !slices.ContainsFunc(keys, func(k causal.CommitKey) bool {
		return !s.coordinators.locks[s.homeOf(topology.SlotOf(k.Key))]
	})
}

// sendCommit sends what sendCopy sends of a put, for a commit.
func (s *Sidecar) sendCommit(c *call, p *causal.Put) {
	m := causal.HomeCommit{ID: p.ID, Session: p.Session, Leadership: p.Leadership, Seq: p.Seq,
		Unanswered: p.Unanswered, Resent: p.Resent, Since: p.Since, Floor: p.Floor, Deps: p.Deps, Local: p.Local,
		Foreign: p.Foreign, Keys: c.commit()}
	if c.locks != nil {
		if m.Lock = c.locks.token; c.locks.put == 0 {
			m.Others = c.locks.others()
		}
	}
	s.Send(m.Message(s.cfg.Self, c.target))
}

// acknowledgeCommit takes that a commit was accepted, with the version of its last put.
func (s *Sidecar) acknowledgeCommit(c *call, last causal.Version) {
	puts := slices.DeleteFunc(slices.Clone(c.commit()), func(k causal.CommitKey) bool { return k.ReadOnly })
	if s.cfg.Broken.Has(causal.CommitFollowedInPart) {
		last.HLC -= causal.HLC(len(puts) - 1)
		puts = puts[:1]
	}
	for i := range puts {
		v := causal.Version{HLC: last.HLC - causal.HLC(len(puts)-1-i), Origin: last.Origin}
		c.op.Key, c.op.Value, c.slot = puts[i].Key, puts[i].Record.Value, topology.SlotOf(puts[i].Key)
		c.level.acknowledge(s, c, v)
	}
}

// commitBytes is what the keys and values of a commit take, in bytes.
func commitBytes(keys []causal.CommitKey) (bytes int) {
	for i := range keys {
		bytes += len(keys[i].Key) + keys[i].Record.Value.Size()
	}
	return bytes
}
