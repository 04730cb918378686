package groups

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// disk is a volume with its entries.
type disk struct {
	volume   uint64
	storage  storage       // used with plan.external only
	entries  []group.Entry // some at the beginning may be removed
	synced   uint64        // index of the last entry that is durable
	damaged  bool
	lost     bool // nobody can ever use it again
	slowTill int64
	slowBy   time.Duration
	hungTill int64
}

func (w *world) newDisk() *disk {
	w.volumes++
	return &disk{volume: w.volumes}
}

// host runs a member.
type host struct {
	w          *world
	name       string
	disk       *disk
	g          *group.Group // nil while it is down
	instance   int
	startedAt  int64 // the instance
	drift      float64
	syncing    bool
	queued     []group.Entry
	cutTill    int64 // from the register
	pausedTill int64 // the process is stopped
	copy       *copying
	emptied    uint64 // index of the entry with which its log started over; 0: it did not since this start
	isAsked    bool   // a person has asked it to give the group up

	// What the user of a primary knows.
	serving bool
	commit  uint64
	pending []group.Positioned // appended, and not committed yet, in order

	messages []group.Message
	writes   []group.Entry
	ops      []group.RegisterOp
	changes  []group.Event
}

func (h *host) clock() causal.Now {
	return causal.Now{Mono: int64(float64(h.w.now-h.startedAt)*(1+h.drift)) + h.firstTime()}
}

func (h *host) id() group.ID { return group.ID{Name: h.name, Volume: h.disk.volume} }

// start starts the member from its disk.
func (h *host) start() {
	if h.g != nil {
		return
	}
	var image group.Image
	var buf []byte
	for i := range h.disk.entries {
		buf = h.disk.entries[i].AppendTo(buf[:0])
		e, err := group.ParseEntry(h.disk.entries[i].Index, buf)
		if err == nil {
			err = image.Apply(&e)
		}
		if err != nil {
			h.w.violate("%s: %v", h.id(), err)
			return
		}
	}
	if err := image.Check(); err != nil && !h.disk.damaged {
		h.w.violate("%s: %v", h.id(), err)
		return
	}
	o := group.DefaultOptions(h.id())
	o.Damaged, o.Broken, o.Register = h.disk.damaged, h.w.broken, h.w.withRegister
	o.MaxFrameBytes, o.MaxInflightBytes, o.MaxUncommittedBytes, o.MaxLogBytes, o.MaxRecordBytes = 300, 900, 200,
		40_000, 1000
	o.ReadEvery, o.Lease = 3*time.Second, h.w.lease
	if s := &h.disk.storage; h.w.external {
		o.External, o.Foundation, o.Applied, o.Occupied, o.Blank = true, s.foundation, s.position,
			*s != storage{} && *s != storage{foundation: h.disk.volume, of: h.disk.volume}, s.position == 0
	}
	h.instance++
	h.startedAt = h.w.now
	h.g = group.New(o, &image, h.clock())
	h.g.SetDesired(h.clock(), h.w.desiredNames())
	h.g.SetReplaceable(h.w.replaceable)
	h.flush()
	h.w.after(h.w.upTo(25*time.Millisecond), h.ticker(h.instance))
	for _, other := range h.w.hosts {
		if other.g != nil && other != h {
			other.g.LinkUp(other.clock(), h.name)
		}
	}
}

func (h *host) ticker(instance int) func() {
	return func() {
		if h.g == nil || h.instance != instance {
			return
		}
		if h.w.now < h.pausedTill {
			h.w.after(time.Duration(h.pausedTill-h.w.now)+h.w.upTo(50*time.Millisecond), h.ticker(instance))
			return
		}
		if now := h.clock(); h.g.NextTick(now) <= now.Mono {
			h.g.Tick(now)
		}
		h.flush()
		h.useStorage()
		h.flush()
		h.w.checkLease(h)
		h.w.after(25*time.Millisecond, h.ticker(instance))
	}
}

// crash stops the member. What its disk had not acknowledged is lost, or a part of it is kept.
func (h *host) crash() {
	if h.g == nil {
		return
	}
	h.g, h.syncing, h.queued, h.copy, h.emptied = nil, false, nil, nil, 0
	h.instance++
	h.serving, h.pending = false, nil
	d := h.disk
	unsynced := 0
	for unsynced < len(d.entries) && d.entries[len(d.entries)-1-unsynced].Index > d.synced {
		unsynced++
	}
	keep := h.w.rng.IntN(unsynced + 1)
	d.entries = d.entries[:len(d.entries)-unsynced+keep]
	d.synced += uint64(keep)
}

// with calls f with the member, if it is up, and carries out what it asks for.
func (h *host) with(f func(g *group.Group, now causal.Now)) {
	if h.g == nil {
		return
	}
	if instance := h.instance; h.w.now < h.pausedTill { // it happens when the process continues
		h.w.after(time.Duration(h.pausedTill-h.w.now)+1, func() {
			if h.instance == instance {
				h.with(f)
			}
		})
		return
	}
	f(h.g, h.clock())
	h.flush()
}

// flush carries out what the member asks for.
func (h *host) flush() {
	h.messages = h.g.Take(h.clock(), h.messages[:0])
	for i := range h.messages {
		h.w.transmit(h, h.messages[i])
	}
	h.writes = h.g.Writes(h.writes[:0])
	if len(h.writes) > 0 {
		h.disk.entries = append(h.disk.entries, h.writes...)
		h.queued = append(h.queued, h.writes...)
		h.sync()
	}
	h.ops = h.g.RegisterOps(h.ops[:0])
	for _, op := range h.ops {
		h.w.register.request(h, op)
	}
	h.changes = h.g.Events(h.changes[:0])
	for i := range h.changes {
		h.handle(&h.changes[i])
		if h.g == nil {
			return
		}
	}
}

// sync makes what is queued durable, unless a sync is in progress.
func (h *host) sync() {
	if h.syncing || len(h.queued) == 0 {
		return
	}
	h.syncing = true
	last := h.queued[len(h.queued)-1].Index
	h.queued = h.queued[:0]
	d, instance := h.disk, h.instance
	took := h.w.upTo(h.w.syncTime)
	if h.w.now < d.slowTill {
		took += h.w.upTo(d.slowBy)
	}
	if h.w.now < d.hungTill {
		took += time.Duration(d.hungTill - h.w.now)
	}
	h.w.after(took, func() {
		if h.instance != instance {
			return
		}
		h.syncing, d.synced = false, last
		h.with(func(g *group.Group, now causal.Now) { g.Appended(now, last) })
		if h.g == nil {
			return
		}
		if before := h.g.TruncateBefore(); h.w.rng.IntN(4) == 0 && len(d.entries) > 0 && before > d.entries[0].Index {
			d.entries = d.entries[h.w.rng.IntN(int(before-d.entries[0].Index)+1):]
		}
		h.sync()
	})
}

// handle does what a user does.
func (h *host) handle(e *group.Event) {
	switch e.Kind {
	case group.Lead:
		h.serving, h.commit, h.pending = true, e.Position, nil
		h.w.checkLead(h, e)
		h.g.SetWhole(true)
	case group.Committed:
		n := 0
		for n < len(h.pending) && h.pending[n].Position <= e.Position {
			n++
		}
		h.w.checkCommitted(h, h.pending[:n])
		h.pending = h.pending[n:]
		h.commit = max(h.commit, e.Position)
	case group.Stop:
		if e.HandedOver && len(h.pending) > 0 {
			h.w.violate("%s handed over with %d records that are not committed", h.id(), len(h.pending))
		}
		h.serving, h.pending = false, nil
	case group.Reset:
		// A member that was dropped and had begun a copy does not know after a crash, perhaps, that it was dropped.
		isCopy := h.w.external && h.disk.storage.foundation == 0
		if !h.disk.damaged && !isCopy && !h.isAsked && !h.g.Status().Replaced {
			h.w.violate("%s is to be emptied, and is not damaged", h.id())
		}
		h.crash()
		h.disk.lost = true
		h.disk = h.w.newDisk()
		h.w.after(h.w.upTo(500*time.Millisecond), h.start)
	case group.NeedsCopy:
		h.beginCopy(e.From)
	}
}
