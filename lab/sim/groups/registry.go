package groups

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// registry is the register: one value with linearizable reads and compare-and-swap.
type registry struct {
	w *world
	Store
	latest   group.Config // that was ever swapped in, whatever was restored since
	history  []group.Config
	downTill int64
	restored bool
}

func (r *registry) init(w *world) { r.w, r.Number = w, 1 }

// request carries out a request of a host, some time later.
func (r *registry) request(h *host, op group.RegisterOp) {
	w, instance, number := r.w, h.instance, r.Number
	reply := func(d time.Duration, res group.RegisterResult) {
		res.ID = op.ID
		w.after(d, func() {
			if h.instance == instance {
				h.with(func(g *group.Group, now causal.Now) { g.RegisterDone(now, res) })
			}
		})
	}
	if w.now < r.downTill || w.now < h.cutTill {
		if op.Swap && w.rng.IntN(2) == 0 { // it cannot be told from one whose answer is lost
			reply(w.upTo(time.Second), group.RegisterResult{Outcome: group.Unknown})
		} else {
			reply(w.upTo(100*time.Millisecond), group.RegisterResult{Outcome: group.Failed})
		}
		return
	}
	there := w.upTo(2 * w.latency)
	if op.Swap && w.happens(w.unknownSwaps, UnknownSwap) {
		reply(w.upTo(time.Second), group.RegisterResult{Outcome: group.Unknown})
		switch w.rng.IntN(4) {
		case 0: // never done
		case 1:
			w.after(there, func() { r.swap(op, number) })
		default:
			w.after(w.upTo(6*time.Second), func() { r.swap(op, number) })
			switch {
			case r.Found && op.Config.Group != r.Config.Group: // the group is given up
				if w.rng.IntN(4) > 0 {
					w.bringBack(h)
				}
			case w.happens(700, CutJoiner):
				w.cutJoiners(h, &op.Config)
			}
		}
		return
	}
	w.after(there, func() {
		res := r.Read()
		if op.Swap && !r.swap(op, number) {
			res.Outcome = group.Failed
		}
		reply(w.upTo(2*w.latency), res)
	})
}

// swap compares and swaps. A request that was sent to an earlier cluster fails.
func (r *registry) swap(op group.RegisterOp, number int) bool {
	before, found := r.Config, r.Found
	if number != r.Number || !r.Swap(op) {
		return false
	}
	if found && op.Config.Epoch <= before.Epoch {
		r.w.violate("epoch %d follows epoch %d in the register", op.Config.Epoch, before.Epoch)
	}
	if found && op.Config.Group != before.Group && slices.Contains(op.Config.Replaced, before.Group) {
		r.w.add(op.Config.Group)
	}
	r.history = append(r.history, before)
	r.latest = op.Config
	r.notify()
	return true
}

// notify tells some hosts that the register has changed, and some others later or for no reason.
func (r *registry) notify() {
	for _, h := range r.w.hosts {
		for range r.w.rng.IntN(3) {
			r.w.after(r.w.upTo(r.w.upTo(4*time.Second)), func() {
				if r.w.now >= h.cutTill {
					h.with(func(g *group.Group, now causal.Now) { g.RegisterChanged(now) })
				}
			})
		}
	}
}

// restore makes the register what it was earlier, in a new cluster. Requests in progress are lost.
func (r *registry) restore() {
	if len(r.history) == 0 {
		return
	}
	i := r.w.rng.IntN(len(r.history))
	if r.history[i].Epoch == 0 {
		// Who creates a group asks those that should be members. With an empty register, these must include one that
		// remembers.
		if r.w.members < len(r.w.hosts) || !slices.ContainsFunc(r.w.hosts, func(h *host) bool {
			return !h.disk.damaged && r.latest.Has(h.id())
		}) {
			return
		}
		r.w.weights[Resize] = 0
	}
	r.Number++
	r.restored = true
	r.Config, r.history = r.history[i], r.history[:i]
	r.Found = r.Config.Epoch > 0
	r.notify()
}
