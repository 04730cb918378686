package group

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// stepFrame takes in records from a primary.
func (g *Group) stepFrame(now causal.Now, from ID, f *Frame) {
	if g.isForeign(&f.Config) {
		g.diverged = true
		g.noteReplaced(now, &f.Config)
		return
	}
	if g.isReplaced() {
		return // its primary does not know yet that what it sends is void
	}
	// A session that is over must change nothing: what it has written and is not committed is replaced.
	if f.Session.Compare(g.state.Session) < 0 && !g.opts.Broken.Has(causal.AcceptDeposed) || g.damaged ||
		from == g.self {
		g.answer(from, 0)
		return
	}
	if g.isSilenced(now) || !g.enter(now, f) || g.damaged {
		return
	}
	g.heardAt = now.Mono
	if !g.IsFounded() {
		g.needCopy(from)
		g.report(from, f)
		return
	}
	if f.Reset && !g.resetLog(now, from, f) {
		g.report(from, f)
		return
	}
	if g.diverges(f) {
		g.diverged = true
		g.report(from, f)
		return
	}
	if !g.log.knows(f.Position) || g.log.stamp(f.Position) != f.Stamp && !g.opts.Broken.Has(causal.AppendUnchecked) {
		g.report(from, f)
		return
	}
	g.diverged = false
	g.takeRecords(now, f)
	g.noteGrant(now, f)
	end := f.Position + uint64(len(f.Records))
	g.matched = max(g.matched, end)
	g.commit = max(g.commit, min(f.Commit, g.matched))
	if f.Base <= g.commit+1 {
		g.collect(now, min(f.Base, g.collectLimit()))
	}
	g.acknowledgeWhenDurable(now, from, Ack{Session: f.Session, Match: g.matched, SentAt: f.SentAt,
		Granted: !f.Released})
}

// enter takes part in the session of a frame, and learns its configuration. It returns false if this member is itself
// the primary now.
func (g *Group) enter(now causal.Now, f *Frame) bool {
	g.learn(now, f.Cluster, &f.Config)
	if g.lead != nil && f.Session.Compare(g.lead.session) > 0 {
		g.stop(false) // a register that was replaced: learn has not ended it
	}
	if g.lead != nil {
		return false
	}
	if c := f.Session.Compare(g.state.Session); c > 0 || c < 0 && g.opts.Broken.Has(causal.AcceptDeposed) {
		g.state.Session = f.Session
		g.matched, g.waits, g.grantSentAt = 0, nil, 0
		g.save(now) // it is durable before the acknowledgement, since entries are durable in order
		if g.opts.Broken.Has(causal.TruncateToCommit) && g.commit < g.log.last() {
			g.truncate(now, g.commit+1)
		}
	}
	return true
}

// resetLog starts the log where the frame says, if this is a joining member that does not have what comes before. A
// member of a configuration has everything that is committed, so it never needs to, and must not.
func (g *Group) resetLog(now causal.Now, from ID, f *Frame) bool {
	if broken := g.opts.Broken.Has(causal.ResetAgain); !broken {
		if g.log.knows(f.Position) && g.log.stamp(f.Position) == f.Stamp {
			return true // it was reset already, and may have gone on
		}
		if g.state.Config.Has(g.self) || f.Position+1 < g.log.first() {
			return false
		}
		if g.opts.External {
			g.needCopy(from)
			return false
		}
	}
	g.startAt(now, f.Position, f.Stamp)
	return true
}

// needCopy says that the user has to copy the state of the primary.
func (g *Group) needCopy(from ID) {
	if n := len(g.events); n == 0 || g.events[n-1].Kind != NeedsCopy {
		g.events = append(g.events, Event{Kind: NeedsCopy, From: from})
	}
}

// startAt empties the log. It goes on behind the record at pos, which has a stamp.
func (g *Group) startAt(now causal.Now, pos uint64, stamp Stamp) {
	g.log.reset(pos+1, stamp)
	g.baseIndex = g.write(now, Entry{Kind: EntryReset, Position: pos + 1, Anchor: stamp})
	g.commit, g.matched, g.waits = pos, 0, nil
	g.save(now)
}

// diverges reports whether a frame differs from records that are known here to be committed. That never happens, unless
// this log or the primary's is not what its disk had acknowledged, or they are those of two groups.
func (g *Group) diverges(f *Frame) bool {
	differs := func(pos uint64, s Stamp) bool {
		return pos <= g.commit && g.log.knows(pos) && g.log.stamp(pos) != s &&
			!g.opts.Broken.Has(causal.KeepConflicting)
	}
	if differs(f.Position, f.Stamp) {
		return !g.opts.Broken.Has(causal.AppendUnchecked)
	}
	for i := range f.Records {
		if differs(f.Position+1+uint64(i), f.Records[i].Stamp) {
			return true
		}
	}
	return false
}

// takeRecords appends what the log does not have, and replaces what differs, which is not committed.
func (g *Group) takeRecords(now causal.Now, f *Frame) {
	for i := range f.Records {
		pos, r := f.Position+1+uint64(i), f.Records[i]
		if pos <= g.log.last() {
			if g.log.stamp(pos) == r.Stamp || g.opts.Broken.Has(causal.KeepConflicting) {
				continue
			}
			g.truncate(now, pos)
		}
		g.appendRecord(now, r)
	}
}

// truncate removes the records from pos on.
func (g *Group) truncate(now causal.Now, pos uint64) {
	g.log.truncate(pos)
	g.write(now, Entry{Kind: EntryTruncate, Position: pos})
}

// acknowledgeWhenDurable acknowledges once everything that was written so far is durable.
func (g *Group) acknowledgeWhenDurable(now causal.Now, to ID, a Ack) {
	index := g.next - 1
	if index <= g.durable || g.opts.Broken.Has(causal.AckBeforeDurable) {
		g.acknowledge(now, to, a)
		return
	}
	if n := len(g.waits); n > 0 && g.waits[n-1].index == index {
		g.waits[n-1] = wait{index, to, a} // it says at least as much
		return
	}
	g.waits = append(g.waits, wait{index, to, a})
}

// acknowledgeDurable acknowledges what has become durable. All that waits is of one session, so the last
// acknowledgement says as much as all.
func (g *Group) acknowledgeDurable(now causal.Now) {
	n := 0
	for n < len(g.waits) && g.waits[n].index <= g.durable {
		n++
	}
	if n > 0 {
		last := g.waits[n-1]
		g.waits = slices.Delete(g.waits, 0, n)
		g.acknowledge(now, last.to, last.ack)
	}
}

func (g *Group) acknowledge(now causal.Now, to ID, a Ack) {
	if g.isSilenced(now) {
		return
	}
	a.Resigning, a.Unfit, a.Impaired = g.resigning, g.unfit.is, g.impaired
	if a.Granted {
		g.grantUntil = max(g.grantUntil, now.Mono+int64(g.opts.Lease))
	}
	g.send(to, &a)
}

// report says what this member has.
func (g *Group) report(to ID, f *Frame) {
	if !g.IsFounded() { // what the log has is worth nothing
		g.send(to, &Report{Session: f.Session, Number: f.Number, Acked: f.Acked, Base: 1})
		return
	}
	g.send(to, &Report{Session: f.Session, Number: f.Number, Acked: f.Acked, Base: g.log.first(), Last: g.log.last(),
		Commit: g.commit, Runs: g.log.tail()})
}
