package coordinator

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/topology"
)

// Operations that are sent to the home of their key (PROTOCOL HOM): a put has one in place of a value. The home
// executes it at once on the newest write of the key that it has accepted, if it is certain that nothing is newer, and
// goes on as with a put of the result. Otherwise it refuses, and the sidecar reads the key and puts the result.

// maxUncompared is for how long operations go on from one another before one is refused. Its sidecar reads the key
// elsewhere, too, so that what another data center has written of a busy key is seen.
const maxUncompared = time.Second

// errUnwritten stands for an operation that was executed and writes nothing.
const errUnwritten = causal.ErrNotFound

// execution is what has become of an operation.
type execution struct {
	asked bool           // the put has an operation
	err   causal.ErrCode // why it was not executed, or errUnwritten
	base  causal.Version // what it was executed on
}

// execute executes the operation of a put, if it has one, and makes the result the value of the put.
func (c *Coordinator) execute(now causal.Now, p *causal.Put, tail *sessionTail) execution {
	if p.Value.Type != causal.Operation {
		return execution{}
	}
	o, follows, ok := operation.Parse(p.Value)
	p.Value = causal.Value{} // what is checked of a put that is refused
	switch {
	case !ok:
		return execution{asked: true, err: causal.ErrType}
	case !c.home.enabled, !c.home.has(p.Local):
		return execution{asked: true, err: causal.ErrUnavailable}
	case c.home.isCrowded(len(p.Deps)), follows && (p.Seq != tail.seq+1 || tail.refused == tail.seq):
		return execution{asked: true, err: causal.ErrConflict}
	}
	base, ok := c.home.base(now, p)
	if !ok {
		return execution{asked: true, err: causal.ErrConflict}
	}
	r := o.Apply(base.Value, now.WallMs)
	if !r.Writes {
		return execution{asked: true, err: errUnwritten, base: base.Version}
	}
	p.Value = r.Next
	return execution{asked: true, base: base.Version}
}

// base returns the newest write of a key, if it is certain that it is, and that whoever asks may see it: nothing that
// was forgotten, shown or seen by the session is newer, and all that it depends on is complete or known to the session.
func (h *home) base(now causal.Now, p *causal.Put) (causal.Record, bool) {
	k := h.keys[p.Key]
	if k == nil || k.accepted.IsZero() {
		return causal.Record{}, false
	}
	rec, w := k.top, k.w
	if k.under != nil && !h.cfg.Broken.Has(causal.HomeExecutesOnPublished) {
		rec, w = k.under.rec, k.under
	}
	if rec.Version.IsZero() || rec.Value.Merges() || now.Mono-k.comparedAt > int64(maxUncompared) {
		return causal.Record{}, false
	}
	least := max(h.least(k), p.From, p.Foreign)
	if rec.Version.HLC <= least {
		return causal.Record{}, false
	}
	unknown := slices.ContainsFunc(h.depsOf(w), func(d causal.Dep) bool { return !slices.Contains(p.Deps, d) })
	return rec, !unknown
}

// answerUnwritten answers an operation that writes nothing by what it was executed on, once that is published.
func (c *Coordinator) answerUnwritten(from topology.Node, p *causal.Put, base causal.Version) {
	h := &c.home
	k, read := h.keys[p.Key], causal.HomeRead{ID: p.ID, Key: p.Key}
	if !k.top.Version.Less(base) {
		h.answer(from, &read)
		return
	}
	holder, ok := h.waits.Take(from)
	if !ok {
		c.Send(causal.PutReply{ID: p.ID, Err: causal.ErrBusy}.Message(c.cfg.Self, from))
		return
	}
	k.waiting = append(k.waiting, homeWait{read: read, from: from, holder: holder, base: base})
}

// addOutcome adds to the answer of an operation what it has written: from the write while it is incomplete, or from
// what is kept of its key. If neither has it, the operation was executed, and nobody can tell with which result.
func (h *home) addOutcome(r *causal.PutReply, key string, w *write) {
	if w != nil {
		r.Value, r.Past = w.rec.Value, w.foreignPast
		return
	}
	if k := h.keys[key]; k != nil && k.top.Version == r.Version {
		r.Value, r.Past = k.top.Value, k.past
		return
	}
	r.Err, r.Version = causal.ErrUnknown, causal.Version{}
}
