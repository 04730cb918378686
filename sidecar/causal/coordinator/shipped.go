package coordinator

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

// Operations that are sent to the home of their key (PROTOCOL HOO): a put has one in place of a value. The home
// executes it at once on the newest write of the key that it has accepted, if it is certain that nothing is newer, and
// goes on as with a put of the result. Otherwise it refuses, and the sidecar reads the key and puts the result.

const (
	// maxUncompared is for how long operations go on from one another before one is refused. Its sidecar reads the key
	// elsewhere, too, so that what another data center has written of a busy key is seen.
	maxUncompared = time.Second
	// maxOvertaken is for how long reads for update wait for a quiet moment of their key before operations wait too.
	maxOvertaken = 50 * time.Millisecond
)

// base is what an operation is executed on.
type base struct {
	rec  causal.Record
	w    *write     // of rec, while it is incomplete
	past causal.HLC // the greatest HLC of a write of another origin in its past
	// isFound says that it is what the session of the operation has found elsewhere, and isCompared that this has read
	// the key there.
	isFound, isCompared bool
	// upTo is up to which HLC a value that merges has everything of the key.
	upTo causal.HLC
}

// handleOperation executes an operation, or refuses it. If it writes nothing, it is answered by what it was executed
// on. Otherwise it is a put of what it writes, which follows what it was executed on.
func (c *Coordinator) handleOperation(now causal.Now, from topology.Node, p causal.Put) {
	tail, overtaken, isNew := c.receivePut(now, from, &p)
	if !isNew {
		return
	}
	b, writes, err := c.execute(now, &p, tail, overtaken)
	var v causal.Version
	if err == causal.OK && writes {
		v, err = c.nextVersion(now, from, &p, overtaken)
	}
	if err = c.refuseInOrder(tail, &p, err); err != causal.OK {
		c.home.stats.Unexecuted++
		c.homeChange.tellRefused(from, err)
		c.refusePut(from, p.ID, err)
		return
	}
	if !writes {
		tail.executed = p.Seq
		c.awaitUnwritten(now, from, &p, b)
		return
	}
	c.home.stats.Executed++
	if b.isCompared {
		c.home.noteCompared(now, p.Key)
	}
	if !c.cfg.Broken.Has(causal.HomeExecutesWithoutPast) {
		b.precede(&p)
	}
	c.undurable.add(from, c.log.nextIndex, sizeOf(p.Key, p.Value, len(p.Deps)))
	w, logged := c.accept(now, from, &p, v, tail)
	w.isOutcome, tail.executed = true, p.Seq
	if w.rec.Value.Merges() {
		w.made = &whole{c.cfg.Types.Join(b.rec, w.rec), b.upTo}
	}
	if w.made != nil && c.cfg.Broken.Has(causal.HomeFoundApart) {
		w.made.rec = w.rec
	}
	tail.noteAccepted(p.Seq, v.HLC, outcomeOf(w))
	c.log.append(LogRecord{Write: logged})
	if c.cfg.Broken.Has(causal.HomeAnswersEarly) {
		c.answerPut(w)
	}
}

// precede makes a put follow a base.
func (b *base) precede(p *causal.Put) {
	if b.w != nil {
		p.Deps = append(slices.Clip(p.Deps), causal.Dep{Version: b.rec.Version, Slot: b.w.slot})
	}
	p.Foreign = max(p.Foreign, b.past)
}

// execute executes the operation of a put, and makes what it writes the value of the put.
func (c *Coordinator) execute(now causal.Now, p *causal.Put, tail *sessionTail, overtaken bool) (b base, writes bool,
	err causal.ErrCode) {
	o, follows, ok := operation.Parse(p.Value)
	p.Value = causal.Value{}
	if err = c.refusesPut(p, overtaken); err != causal.OK {
		return b, false, err
	}
	switch {
	case !ok:
		return b, false, causal.ErrType
	case !c.home.enabled:
		return b, false, causal.ErrUnavailable
	case follows && tail.executed != p.Seq-1:
		return b, false, causal.ErrConflict
	}
	if err = c.checkAtHome(p); err != causal.OK {
		return b, false, err
	}
	if c.home.keys[p.Key].isKept() {
		return b, false, causal.ErrConflict // its sidecar reads the key, which waits
	}
	if err = c.admitsFound(now, o.Found); err != causal.OK {
		return b, false, err
	}
	if b, ok = c.home.base(now, p, o.Found); !ok {
		return b, false, causal.ErrConflict
	}
	r := c.cfg.Types.Execute(&o, b.rec, now.WallMs, c.lineOf(&o))
	switch {
	case b.rec.Value.Merges() && !o.Sums:
		return b, false, causal.ErrConflict
	case o.Joined && r.Err != nil:
		return b, false, causal.ErrConflict
	case !r.Writes && b.rec.Value.Merges() && b.isCompared:
		return b, false, causal.ErrConflict // what was found is shown with what is written on it
	}
	c.home.showFound(p.Key, &b)
	p.Value = r.Next
	return b, r.Writes, causal.OK
}

// lineOf returns whose increments add up here, one on the other: those of the data center. It is 0 if values that merge
// are not accepted, or not read by who has sent an operation.
func (c *Coordinator) lineOf(o *operation.Operation) value.Line {
	if !o.Sums || !c.home.takesMerging() {
		return 0
	}
	return value.Line(c.cfg.Self.DC) + 1
}

// base returns the newest write of a key, if it is certain that it is, and that whoever asks may see it: nothing that
// was forgotten, shown or seen by the session is newer, and all that it depends on in other data centers is complete or
// named by the put. found is what the session of the put has found elsewhere, or nil.
func (h *home) base(now causal.Now, p *causal.Put, found *operation.Found) (base, bool) {
	k := h.keys[p.Key]
	if k != nil && (k.isOvertaken(now) || k.isPartial()) {
		return base{}, false
	}
	b, ok := h.acceptedBase(k)
	merges := ok && b.rec.Value.Merges() || found != nil && found.Value.Merges()
	least := h.leastOfBase(k, merges)
	if found == nil {
		least = max(least, p.From, p.Foreign) // else its session has read at no less
	}
	if h.cfg.Broken.Has(causal.HomeExecutesOnForgotten) || merges && h.cfg.Broken.Has(causal.HomePartWhole) {
		least = 0
	}
	switch {
	case found != nil && merges:
		return h.joinedBase(b, ok, p, found, least)
	case found != nil:
		return h.baseWithFound(k, b, ok, p, found, least)
	case !ok, !b.includes(least), !h.cfg.Types.IsExecutable(&b.rec.Value),
		now.Mono-k.comparedAt > int64(maxUncompared):
		return base{}, false
	}
	return b, h.knowsPast(p, &b)
}

// leastOfBase returns what a base of a key has to include, or to be newer than. All that was told of a value that
// merges is in the top, but for registers, which are told by their versions.
func (h *home) leastOfBase(k *homeKey, merges bool) causal.HLC {
	switch {
	case !merges:
		return h.least(k)
	case k == nil:
		return h.from
	case k.parts == nil:
		return max(h.from, k.shown.HLC)
	}
	return max(h.from, k.shown.HLC, k.parts.lacks)
}

// includes reports whether a base that was accepted includes everything of its key up to an HLC, or is newer.
func (b *base) includes(least causal.HLC) bool {
	if b.rec.Value.Merges() {
		return b.upTo >= least
	}
	return b.rec.Version.HLC > least
}

// knowsPast reports whether all that a base depends on in other data centers is complete, or named by a put.
func (h *home) knowsPast(p *causal.Put, b *base) bool {
	return !slices.ContainsFunc(h.depsOf(b.w), func(d causal.Dep) bool {
		return !h.isOfHome(d) && !slices.Contains(p.Deps, d)
	})
}

// isOvertaken reports whether a read for update waits for long because operations of the key follow one another.
func (k *homeKey) isOvertaken(now causal.Now) bool {
	return slices.ContainsFunc(k.waiting, func(w homeWait) bool {
		return w.on.rec.Version.IsZero() && now.Mono-w.since > int64(maxOvertaken)
	})
}

// noteCompared notes that the newest write that was accepted of a key is no operation.
func (h *home) noteCompared(now causal.Now, key string) {
	if h.enabled {
		h.keyOf(key).comparedAt = now.Mono
	}
}

// awaitUnwritten answers an operation that writes nothing once what it was executed on is published.
func (c *Coordinator) awaitUnwritten(now causal.Now, from topology.Node, p *causal.Put, on base) {
	h := &c.home
	k, read := h.keys[p.Key], causal.HomeRead{ID: p.ID, Key: p.Key}
	if on.isFound || !k.top.Version.Less(on.rec.Version) {
		h.answerUnwritten(from, &read, &on)
		return
	}
	holder, ok := h.waits.Take(from)
	if !ok {
		h.stats.Busy++
		c.Send(causal.PutReply{ID: p.ID, Err: causal.ErrBusy}.Message(c.cfg.Self, from))
		return
	}
	k.waiting = append(k.waiting, homeWait{read: read, from: from, holder: holder, since: now.Mono, on: on})
}

// answerUnwritten answers an operation that writes nothing by what it was executed on. The key may have a newer value
// by now, also of a later command of the same pipeline.
func (h *home) answerUnwritten(to topology.Node, r *causal.HomeRead, on *base) {
	h.stats.Answered++
	reply := causal.HomeReply{ID: r.ID, Key: r.Key, From: h.least(h.keys[r.Key]), Commits: true, Executes: true,
		Locks: true, Merges: h.takesMerging(), Record: on.rec, Complete: on.w == nil, Deps: h.depsOf(on.w),
		Past: on.past}
	if on.w != nil && on.w.rec.Version != on.rec.Version {
		reply.Incomplete = on.w.rec.Version.HLC
	}
	h.Send(reply.Message(h.cfg.Self, to))
}

// addOutcome adds to the answer of an operation what it has written, and what that depends on at other homes.
func (h *home) addOutcome(r *causal.PutReply, w *write) {
	r.Value, r.Past = w.rec.Value, w.foreignPast
	for _, d := range h.depsOf(w) {
		if h.isOfHome(d) {
			r.Deps = append(r.Deps, d)
		}
	}
}

// answerOutcome adds to the answer of an operation that is sent again what it has written: from the write while it is
// incomplete, from what is kept of the put, or from what is kept of its key. If none has it, the operation was
// executed, and nobody can tell with which result.
func (c *Coordinator) answerOutcome(r *causal.PutReply, key string, w *write, kept *Outcome) {
	if w != nil {
		c.home.addOutcome(r, w)
		return
	}
	if kept != nil {
		r.Value, r.Past = kept.Value, kept.Past
		return
	}
	if k := c.home.keys[key]; k != nil && k.top.Version == r.Version && !k.top.Value.Merges() {
		r.Value, r.Past = k.top.Value, k.past
		return
	}
	r.Err, r.Version = causal.ErrUnknown, causal.Version{}
}
