package group

import (
	"math"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// With Options.External the log is not the whole state: the user of each member applies committed records, in order, to
// a storage beside it (PROTOCOL SGR). The records of a log mean something only on a storage that has
// those before them. So a member takes part when its storage has a foundation in the group: it is that from which the
// group was created, or a copy of another member's, at the position from which its log goes on.

// IsFounded reports whether the log goes on where the user's storage is.
func (g *Group) IsFounded() bool {
	return !g.opts.External || g.foundation != 0 && g.foundation == g.state.Config.Group
}

// SetFoundation says that the user's storage holds, durably, what the log of a group goes on from. With the member's
// own volume, it may create the group.
func (g *Group) SetFoundation(now causal.Now, group uint64) {
	g.foundation = group
	g.knockAt = min(g.knockAt, now.Mono)
}

// HasFoundation reports whether the user's storage has the foundation of a group.
func (g *Group) HasFoundation(group uint64) bool { return g.foundation == group }

// SetApplied says up to where the user's storage has the log, durably. The log is not collected beyond it.
func (g *Group) SetApplied(pos uint64) { g.applied = max(g.applied, pos) }

// collectLimit returns the position before which the log may be collected.
func (g *Group) collectLimit() uint64 {
	if !g.opts.External || g.opts.Broken.Has(causal.CollectUnapplied) {
		return math.MaxUint64
	}
	return g.applied + 1
}

// SetImpaired says whether the user's storage does not respond. Such a member keeps silent, as with a disk that does
// not, so that the others go on without it. Before, for a while, it goes on and says so, since its log is intact: a
// primary hands over to a member that is fit, and a primary drops such a member at once, so that nobody has to wait
// until one that is silent is missed.
func (g *Group) SetImpaired(now causal.Now, impaired bool) {
	if g.impaired == impaired {
		return
	}
	g.impaired = impaired
	if impaired {
		g.silentFrom = now.Mono + int64(g.opts.YieldFor)
		g.plan(now)
	}
	if !impaired {
		g.forgive(now)
		if g.ready() && g.state.Config.Epoch > 0 {
			g.read(now) // the others may have gone on
		}
	}
}

// isSilenced reports whether this member keeps silent because the user's storage does not respond.
func (g *Group) isSilenced(now causal.Now) bool { return g.impaired && now.Mono >= g.silentFrom }

// SetUnfit says whether the user could serve better on another member, e.g. because its storage is full. It is told to
// the primary, which makes no such member its successor if there is another choice; and a primary that is unfit for a
// while hands over to a member that is not.
func (g *Group) SetUnfit(now causal.Now, unfit bool) { g.unfit.set(now, unfit) }

// Restore starts the log of a member that is in no configuration behind a position, up to which its user is copying the
// state. It takes part when SetFoundation has said that the copy is done. The index is that of the last entry that this
// has written.
func (g *Group) Restore(now causal.Now, pos uint64, stamp Stamp) (index uint64, ok bool) {
	if !g.opts.External || g.lead != nil || g.damaged || g.state.Config.Has(g.self) {
		return 0, false
	}
	g.foundation, g.applied = 0, pos
	g.startAt(now, pos, stamp)
	return g.next - 1, true
}

// IsDurable reports whether the disk has an entry.
func (g *Group) IsDurable(index uint64) bool { return index <= g.durable }

// Commit returns the position up to which the log is known to be committed.
func (g *Group) Commit() uint64 { return g.commit }

// Base returns the position of the first record.
func (g *Group) Base() uint64 { return g.log.first() }

// Last returns the position of the last record.
func (g *Group) Last() uint64 { return g.log.last() }

// At returns the record at a position, which is to be from Base to Last. It is not to be changed. Only with a register.
func (g *Group) At(pos uint64) *Record { return &g.log.at(pos).Record }

// StampAt returns the stamp of the record at a position, if it is known: from the one before Base to Last.
func (g *Group) StampAt(pos uint64) (Stamp, bool) {
	if !g.log.knows(pos) {
		return Stamp{}, false
	}
	return g.log.stamp(pos), true
}

// MatchOf returns up to where the log of another member, or of a joining one, is known to be that of this primary;
// false: nothing is known of it.
func (g *Group) MatchOf(id ID) (pos uint64, ok bool) {
	if g.lead == nil {
		return 0, false
	}
	if p := g.findPeer(id); p != nil {
		return p.match, true
	}
	return 0, false
}

// collectStep is about how much of the log CollectBeyond collects at a time, in bytes; less if less is kept.
const collectStep = 1 << 20

// CollectBeyond collects the oldest records before a position, as far as the log is larger than keep bytes. Only with a
// register.
func (g *Group) CollectBeyond(now causal.Now, keep int, before uint64) {
	step := min(collectStep, max(keep, 1))
	if g.lead == nil || !g.lead.serving || g.log.bytes < keep+step {
		return
	}
	before = min(before, g.commit+1, g.lead.own+1, g.collectLimit())
	pos, bytes := g.log.first(), g.log.bytes
	for ; pos < before && bytes > keep; pos++ {
		bytes -= len(g.log.at(pos).Data) + recordOverhead
	}
	if g.log.bytes-bytes >= step {
		g.collect(now, pos)
	}
}

// Group returns what names the group; 0: this member knows of none.
func (g *Group) Group() uint64 { return g.state.Config.Group }

// Life counts the starts on this volume.
func (g *Group) Life() uint64 { return g.state.Life }

// IsDamaged reports whether the volume or the user's storage has lost what it had acknowledged.
func (g *Group) IsDamaged() bool { return g.damaged }

// IsImpaired returns what SetImpaired has said.
func (g *Group) IsImpaired() bool { return g.impaired }

// Last returns the position of the last record in the image.
func (i *Image) Last() uint64 { return i.log.last() }

// StampAt is Group.StampAt of the image.
func (i *Image) StampAt(pos uint64) (Stamp, bool) {
	if !i.log.knows(pos) {
		return Stamp{}, false
	}
	return i.log.stamp(pos), true
}

// Has reports whether a member is in the configuration.
func (g *Group) Has(id ID) bool { return g.state.Config.Has(id) }
