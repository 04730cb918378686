package coordinator

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// decision is a commit of several homes that this one has decided, until the logs of all others have their parts. The
// others put theirs in their order, each after the one before: if the sidecar does not ask for it, the decider does.
type decision struct {
	LoggedDecision
	index  uint64 // of the record that decides
	pushAt int64  // monotonic: when the next one is told
}

// LoggedDecision is what a checkpoint says of a decision.
type LoggedDecision struct {
	Name   causal.LockName
	Last   causal.Dep          // the newest put of the parts that are in the logs
	Others []causal.CommitHome // whose logs do not have their parts yet
}

// decisionPushEvery is how often a home is told of a decision that it has not confirmed.
const decisionPushEvery = 500 * time.Millisecond

// decide notes that the log is to hold a decision.
func (h *homeLocks) decide(now causal.Now, d LoggedDecision, index uint64) {
	if len(d.Others) > 0 && h.decisionOn(d.Name) == nil {
		h.decisions = append(h.decisions, &decision{d, index, now.Mono + int64(lockPatience)})
	}
}

func (h *homeLocks) decisionOn(n causal.LockName) *decision {
	if i := slices.IndexFunc(h.decisions, func(d *decision) bool { return d.Name == n }); i >= 0 {
		return h.decisions[i]
	}
	return nil
}

// restoreDecisions takes the decisions of a checkpoint.
func (h *homeLocks) restoreDecisions(now causal.Now, ds []LoggedDecision) {
	for _, d := range ds {
		h.decide(now, d, 0)
	}
}

// loggedDecisions returns what a checkpoint says.
func (h *homeLocks) loggedDecisions() (ds []LoggedDecision) {
	for _, d := range h.decisions {
		c := d.LoggedDecision
		c.Others = slices.Clone(c.Others)
		ds = append(ds, c)
	}
	return ds
}

// takeVerdict takes what another home of the data center says.
func (h *homeLocks) takeVerdict(now causal.Now, from topology.Node, v causal.HomeVerdict) {
	name := v.Name(h.cfg.Self.DC)
	if decider := name.DeciderIn(h.cfg.Self.DC); from == h.cfg.Self || from != decider && h.cfg.Self != decider {
		return
	}
	switch v.Verdict {
	case causal.VerdictAsked:
		h.takeQuestion(now, from, name)
	case causal.VerdictDone:
		h.confirm(name, from, v.Last)
	case causal.VerdictCommitted, causal.VerdictAborted:
		if from == name.DeciderIn(h.cfg.Self.DC) {
			h.follow(now, from, name, &v)
		}
	}
}

// takeQuestion tells a home what was decided. If nothing was, nothing will be: the part of the decider is not put any
// more, in this leadership because it has no lock, and in others because the lock names this one.
func (h *homeLocks) takeQuestion(now causal.Now, from topology.Node, name causal.LockName) {
	if d := h.decisionOn(name); d != nil {
		if d.index <= h.log.durableIndex && d.isNext(from) {
			h.push(now, d)
		}
		return
	}
	if l := h.byName[name]; (l == nil || !l.putting) && h.abort(now, name) {
		h.Send(causal.VerdictOn(name, causal.VerdictAborted, causal.Dep{}).Message(h.cfg.Self, from))
	}
}

// abort makes sure that a commit that this home was to decide is not.
func (h *homeLocks) abort(now causal.Now, name causal.LockName) bool {
	fence := h.fenceOf(now, name)
	if fence == nil {
		return false // for now
	}
	fence.end(name.Number, causal.Dep{})
	if l := h.byName[name]; l != nil {
		h.release(now, l)
	}
	return true
}

// isNext reports whether a home is the next one to put its part.
func (d *decision) isNext(n topology.Node) bool { return d.Others[0].Index == n.Index }

func (h *homeLocks) push(now causal.Now, d *decision) {
	d.pushAt = now.Mono + int64(decisionPushEvery)
	to := topology.Node{DC: h.cfg.Self.DC, Part: topology.Coordinator, Index: d.Others[0].Index}
	h.Send(causal.VerdictOn(d.Name, causal.VerdictCommitted, d.Last).Message(h.cfg.Self, to))
}

func (h *homeLocks) pushDecisions(now causal.Now) {
	for _, d := range h.decisions {
		if now.Mono >= d.pushAt && d.index <= h.log.durableIndex {
			h.push(now, d)
		}
	}
}

// confirm notes that the log of another home has its part.
func (h *homeLocks) confirm(name causal.LockName, from topology.Node, last causal.Dep) {
	d := h.decisionOn(name)
	if d == nil {
		return
	}
	if last.Version.Written() && d.isNext(from) {
		d.Last = last
	}
	isIt := func(o causal.CommitHome) bool { return o.Index == from.Index }
	d.Others = slices.DeleteFunc(slices.Clone(d.Others), isIt)
	if len(d.Others) == 0 {
		h.decisions = slices.DeleteFunc(h.decisions, func(o *decision) bool { return o == d })
	}
}

// follow does what the decider has decided.
func (h *homeLocks) follow(now causal.Now, decider topology.Node, name causal.LockName, v *causal.HomeVerdict) {
	l := h.byName[name]
	switch {
	case l == nil && v.Verdict == causal.VerdictCommitted:
		h.done(now, name)
	case l == nil, l.putting:
	case v.Verdict == causal.VerdictAborted, !l.part.Writes():
		l.fence.end(name.Number, causal.Dep{})
		h.release(now, l)
	default:
		h.host.putDecided(now, l, v.Last)
	}
}

// done tells the decider that the log has the part of this home.
func (h *homeLocks) done(now causal.Now, name causal.LockName) {
	last := h.putOf(now, name)
	h.Send(causal.VerdictOn(name, causal.VerdictDone, last).Message(h.cfg.Self, name.DeciderIn(h.cfg.Self.DC)))
}

// published notes that the part of a commit is published, whose newest put is w.
func (h *homeLocks) published(now causal.Now, l *homeLock, w *write) {
	if !h.isOver(l) {
		h.letGo(l)
	}
	l.fence.end(l.name.Number, causal.Dep{Version: w.rec.Version, Slot: w.slot})
	if !h.isDecider(&l.name) {
		h.done(now, l.name)
	}
}
