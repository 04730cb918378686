package groups

import (
	"fmt"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// act does what users do: it appends through any member that takes it, and collects the oldest records.
func (w *world) act() {
	w.after(w.upTo(w.thinkTime), w.act)
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	if h.g == nil || !h.serving || w.now < h.pausedTill {
		return
	}
	if w.rng.IntN(w.collects) == 0 {
		h.with(func(g *group.Group, now causal.Now) { g.Collect(now, h.commit+1-min(h.commit, uint64(w.rng.IntN(8)))) })
	}
	for range 1 + w.rng.IntN(4) {
		if h.g == nil || !h.serving || h.append() != nil {
			return
		}
	}
}

// append appends a record with a unique content.
func (h *host) append() error {
	w := h.w
	data := fmt.Sprintf("%s-%d", h.name, w.records)
	pos, err := h.g.Append(h.clock(), []byte(data))
	if err != nil {
		return err
	}
	w.records++
	w.Appends++
	h.pending = append(h.pending, group.Positioned{Position: pos, Data: []byte(data)})
	h.flush()
	return nil
}

// injectFault injects a fault.
func (w *world) injectFault() {
	if !w.faulty {
		return
	}
	w.after(w.upTo(2*w.faultEvery), w.injectFault)
	total := 0
	for _, n := range w.weights {
		total += n
	}
	pick := w.rng.IntN(total)
	for f, n := range w.weights {
		if pick -= n; pick < 0 {
			if w.inject(Fault(f)) {
				w.Faults[f]++
			}
			return
		}
	}
}

func (w *world) inject(f Fault) bool {
	h, other := w.hosts[w.rng.IntN(len(w.hosts))], w.hosts[w.rng.IntN(len(w.hosts))]
	till := w.now + int64(w.upTo(w.cutFor))
	switch f {
	case CrashMember:
		h.crash()
		if w.rng.IntN(4) == 0 { // and soon after its next start
			up := w.upTo(100 * time.Millisecond)
			w.after(up, h.start)
			w.after(up+w.upTo(200*time.Millisecond), func() {
				if w.faulty {
					h.crash()
				}
			})
		}
		w.after(w.upTo(w.upTo(6*time.Second)), h.start)
	case CutPair:
		w.link(pair{h.name, other.name}).cutTill = till
		if w.rng.IntN(2) == 0 {
			w.link(pair{other.name, h.name}).cutTill = till
		}
	case CutMember:
		w.cutOff(h, till)
	case CutRegister:
		if h.cutTill = till; w.rng.IntN(2) == 0 {
			w.register.downTill = till
		}
	case SlowDisk:
		h.disk.slowTill, h.disk.slowBy = till, w.upTo(400*time.Millisecond)
	case HungDisk:
		h.disk.hungTill = till + int64(2*time.Second)
	case PauseMember:
		h.pausedTill = till
	case BreakLink:
		w.breakLink(pair{h.name, other.name})
		w.breakLink(pair{other.name, h.name})
	case Resize:
		w.resize()
	case WipeVolume, FlipBit:
		return w.loseVolume(h, f == FlipBit)
	case SwapVolumes:
		return w.swapVolumes(h, other)
	case RestoreRegister:
		w.register.restore()
	case GiveUp:
		return h.giveUp()
	}
	return true
}

// cutOff cuts a host off from the others, and perhaps from the register.
func (w *world) cutOff(h *host, till int64) {
	for _, other := range w.hosts {
		w.link(pair{h.name, other.name}).cutTill = till
		w.link(pair{other.name, h.name}).cutTill = till
	}
	if !w.external && w.rng.IntN(2) == 0 { // one that may have been given up is to read that
		h.cutTill = till
	}
}

// cutJoiners cuts the author of a swap off from those who join by it, and perhaps restarts the author.
func (w *world) cutJoiners(h *host, c *group.Config) {
	till := w.now + int64(w.upTo(8*time.Second))
	for _, id := range c.Members {
		if !w.register.Config.Has(id) && id.Name != h.name {
			w.link(pair{h.name, id.Name}).cutTill, w.link(pair{id.Name, h.name}).cutTill = till, till
		}
	}
	if w.rng.IntN(2) == 0 {
		w.after(0, h.crash)
		w.after(w.upTo(300*time.Millisecond), h.start)
	}
}

// bringBack brings back whom a host gives up. They do not reach the register, so the swap stays possible meanwhile.
func (w *world) bringBack(by *host) {
	till := w.now + int64(w.upTo(8*time.Second))
	for _, h := range w.hosts {
		for _, other := range w.hosts {
			w.link(pair{h.name, other.name}).cutTill = 0
		}
		if h.start(); h != by {
			h.cutTill = till
		}
	}
}

// resize changes what the group should look like. Hosts learn of it one after the other.
func (w *world) resize() {
	if !w.withRegister || w.external && !w.register.Found {
		// the first member has marked its storage, and is to create the group
		return
	}
	members, preferred := w.members, w.preferred
	w.members, w.preferred = 1+w.rng.IntN(min(3, len(w.hosts))), w.rng.IntN(len(w.hosts))
	w.tellDesired()
	if h := w.primary(); h != nil && w.happens(w.changesMind, Resize) {
		again := w.upTo(time.Second)
		h.cutTill = w.now + int64(again) // it begins to hand over, and cannot
		w.after(again, func() {
			w.members, w.preferred = members, preferred
			w.tellDesired()
			w.after(w.upTo(time.Second), func() { w.cutOff(h, w.now+int64(w.upTo(8*time.Second))) })
		})
	}
}

func (w *world) tellDesired() {
	for _, h := range w.hosts {
		w.after(w.upTo(500*time.Millisecond), func() {
			h.with(func(g *group.Group, now causal.Now) { g.SetDesired(now, w.desiredNames()) })
		})
	}
}

// loseVolume stops a host, and empties or damages its volume. Mostly, a volume of the configuration is left.
func (w *world) loseVolume(h *host, damage bool) bool {
	left := 0
	for _, other := range w.hosts {
		if d := other.disk; other != h && w.register.latest.Has(other.id()) && !d.damaged {
			left++
		}
	}
	if damage && !w.register.Found || left == 0 && (!w.register.Found || w.rng.IntN(w.keepsOne) > 0) {
		return false
	}
	h.crash()
	if !damage {
		h.disk.lost = true
		h.disk = w.newDisk()
	} else if d := h.disk; len(d.entries) > 0 {
		d.entries = d.entries[:w.rng.IntN(len(d.entries))]
		d.synced = 0
		if n := len(d.entries); n > 0 {
			d.synced = d.entries[n-1].Index
		}
		d.damaged = true
	}
	w.after(w.upTo(w.upTo(6*time.Second)), h.start)
	return true
}

// swapVolumes stops two hosts and exchanges their volumes, and later again.
func (w *world) swapVolumes(h, other *host) bool {
	if h == other {
		return false
	}
	h.crash()
	other.crash()
	h.disk, other.disk = other.disk, h.disk
	w.after(w.upTo(3*time.Second), func() { h.start(); other.start() })
	return true
}
