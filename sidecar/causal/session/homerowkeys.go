package session

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
)

// Values that merge among the keys of an MGET at level Local. It reads elsewhere after the homes have answered, as
// registers do, and what it shows of such a key is what its home has and what was found.

// mergesAt reports whether the value of a key of an MGET merges, as far as is known.
func (m *mget) mergesAt(i int) bool {
	return m.replies[i].record.Value.Merges() || m.atHome.replies != nil && m.atHome.replies[i].Record.Value.Merges()
}

// rowsOfKey compares what was found elsewhere of a key with what its home has.
func (s *Sidecar) rowsOfKey(m *mget, i int) rowsElsewhere {
	reply := &m.replies[i]
	found := causal.GetReply{Record: reply.record, Status: s.shownStatus(m, reply), Unstable: m.unstable[i]}
	if found.Status == causal.Stable {
		found.Unstable = nil
	}
	return s.compareRows(m.slots[i], &m.atHome.replies[i], &found, 0)
}

// newsOfKey returns what an MGET is about to show of a key that its home may not know: the version of a register, or
// writes that merge.
func (s *Sidecar) newsOfKey(m *mget, i int) causal.Record {
	switch {
	case !s.isNews(m, i):
		return causal.Record{}
	case !m.mergesAt(i):
		return causal.Record{Version: m.replies[i].record.Version}
	}
	rows := s.rowsOfKey(m, i)
	if !rows.news.Value.Merges() {
		rows.news.Value = causal.Value{}
	}
	return rows.news
}

// haveRowsChanged reports whether a home has something of a key of which the value merges that it had not when it was
// asked first.
func (s *Sidecar) haveRowsChanged(m *mget, i int, r *causal.HomeReply) bool {
	return !keystate.Same(&r.Record, &m.atHome.replies[i].Record) || r.From > m.fromOf(i)
}

// showRows adds what was read of a key of which the value merges to the past of the session, and makes rec that.
func (s *Sidecar) showRows(now causal.Now, c *call, i int, rec *causal.Record) Outcome {
	m := c.mget
	reply, top := &m.replies[i], &m.atHome.replies[i]
	rows := s.rowsOfKey(m, i)
	*rec = rows.joined
	if w := m.own[i]; w != nil {
		own := w.record()
		*rec, _ = keystate.Overlay(s.cfg.Types, &rows.joined, &own)
	}
	f := rows.found(reply.record, m.ring, 0)
	f.slot = m.slots[i]
	c.level.observe(s, now, c.session, f)
	status := f.status
	if top.Record.Version.Written() && !top.Complete {
		status = causal.InFlight
	}
	return Outcome{Source: s.sourceOfKey(m.slots[i], reply), Status: status, Ring: m.ring}
}
