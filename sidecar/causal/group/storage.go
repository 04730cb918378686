package group

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Writes appends the entries to be made durable, in this order, to dst. Appended says when they are.
func (g *Group) Writes(dst []Entry) []Entry {
	dst = append(dst, g.writes...)
	g.writes = causal.Recycle(g.writes)
	return dst
}

// write adds an entry to those to be written and returns its index.
func (g *Group) write(now causal.Now, e Entry) uint64 {
	if g.durable+1 == g.next {
		g.stalledSince = now.Mono
	}
	e.Index = g.next
	g.next++
	g.writes = append(g.writes, e)
	return e.Index
}

// save writes the state and returns the index of the entry.
func (g *Group) save(now causal.Now) uint64 {
	s := g.state
	s.Pending = slices.Clone(s.Pending)
	if g.opts.Broken.Has(causal.ProposalNotPersisted) {
		s.Pending = nil
	}
	if p := g.persisted; p != nil { // the mutation: of sessions and configurations the disk knows the first one
		if p.Config.Epoch == 0 {
			*p = s
		}
		s.Config, s.Cluster, s.Session = p.Config, p.Cluster, p.Session
	}
	s.Commit = g.commit
	g.stateIndex = g.write(now, Entry{Kind: EntryState, State: s})
	return g.stateIndex
}

// appendRecord appends a record to the log and returns its position.
func (g *Group) appendRecord(now causal.Now, r Record) uint64 {
	pos := g.log.last() + 1
	g.log.append(r, g.write(now, Entry{Kind: EntryRecord, Position: pos, Record: r}))
	return pos
}

// collect removes the records before pos, which are committed.
func (g *Group) collect(now causal.Now, pos uint64) {
	if pos <= g.log.first() {
		return
	}
	g.log.collect(pos)
	g.baseIndex = g.write(now, Entry{Kind: EntryBase, Position: pos, Anchor: g.log.stamp(pos - 1)})
	g.save(now) // so that everything before it may go
}

// Appended says that the entries up to an index are durable.
func (g *Group) Appended(now causal.Now, index uint64) {
	wasReady := g.ready()
	g.durable, g.stalledSince, g.diskIsFull = max(g.durable, index), now.Mono, false
	if !g.ready() {
		return
	}
	if !wasReady {
		// A grant of the life before may have been given just before it ended. And a primary is to find out before it
		// serves whether its group was given up while it was away, or while its disk took long.
		g.grantUntil = now.Mono + int64(g.opts.Lease)
		if g.mayReplaceAbsent() {
			g.grantUntil = now.Mono + g.untilReplacedNotice()
		}
	}
	if !wasReady && g.isPrimary() && !g.damaged && g.lead == nil && g.state.Config.Epoch > 0 {
		g.begin(now)
	}
	g.acknowledgeDurable(now)
	if g.lead != nil {
		g.advance(now)
		g.plan(now)
	}
}

// TruncateBefore returns the index of the first entry that the disk has to keep.
func (g *Group) TruncateBefore() uint64 {
	if g.baseIndex == 0 || max(g.baseIndex, g.stateIndex) > g.durable {
		return g.needed // what would replace the earlier entries may be lost yet
	}
	g.needed = min(g.stateIndex, g.baseIndex)
	if oldest := g.log.oldestIndex(); oldest > 0 {
		g.needed = min(g.needed, oldest)
	}
	return g.needed
}

// NoteFullDisk says that the disk has no room for the entries on their way. They are tried again until Appended says
// that they are durable.
func (g *Group) NoteFullDisk() { g.diskIsFull = true }

// isStuck reports whether the disk does not respond, or has no room, or whether the user's storage does not respond.
func (g *Group) isStuck(now causal.Now) bool {
	after := g.opts.StuckAfter
	if g.diskIsFull {
		after = g.opts.SilentAfter // it has answered: to wait longer, as for a disk that may only be slow, helps nobody
	}
	return g.isSilenced(now) || g.durable+1 < g.next && now.Mono-g.stalledSince > int64(after)
}
