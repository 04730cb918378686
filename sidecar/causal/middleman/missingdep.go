package middleman

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Missing dependencies of staged puts (PROTOCOL LAN-4). A staged
// put may wait for long: one of its dependencies may be a write whose coordinator has stopped before it had sent it to
// this ring. Bound reads must not wait for as long, if they need not see the put.
//
// They need not if one of its dependencies was missing in this ring after the read had arrived. For when a write
// becomes visible in a ring, all that it follows has its dependencies met there (flattened dependencies): a put that
// still lacks one precedes nothing that anybody has seen in this ring. Whether one is missing, only the shard that owns
// it can tell. So while reads wait for a put, the shards of its unmet dependencies are probed.
//
// Probes are numbered. A question notes the last probe that was sent when it arrived: the answer to a later one was
// given after that.
//
// A lost, late or repeated probe or answer is harmless: an answer says what was true at or after the sending of its
// probe, and one to an earlier incarnation is ignored.

const (
	// probeDelay is how long a read waits for a put that is mostly about to be written, before it is probed for.
	probeDelay = 50 * time.Millisecond
	// probeInterval is the time between two probes for a put.
	probeInterval = 50 * time.Millisecond
)

// depProbes probes for what staged puts lack, and answers the probes of other shards. What is known of a put, and who
// waits for it, is at the put.
type depProbes struct {
	*shared
	host      probesHost
	staged    *stagedPuts
	deps      *dependencies
	frontiers *frontiers
	lanes     *lanes
	writes    *writes
}

// probesHost is what depProbes ask of their middleman.
type probesHost interface {
	isClean(v causal.Version, slot topology.Slot) bool
	// read reads again for a question that need not wait any more.
	read(now causal.Now, r readRequest)
}

// cannotBeSeen reports whether a dependency of p was missing at some time after a question arrived.
func (ps *depProbes) cannotBeSeen(p *put, since uint64) bool {
	return p.missingAsOf > since || p.missingAsOf > 0 && ps.cfg.Broken.Has(causal.MissingLongAgo)
}

// tick probes for the puts that questions wait for.
func (ps *depProbes) tick(now causal.Now) {
	questioned := ps.staged.questioned
	ps.staged.questioned = nil
	for _, p := range questioned {
		if len(p.questions) == 0 {
			p.isQuestioned = false
			continue
		}
		ps.staged.questioned = append(ps.staged.questioned, p)
		if now.Mono >= p.probeAt {
			p.probeAt = now.Mono + int64(probeInterval)
			ps.probe(now, p)
		}
	}
}

// probe asks the shards of the unmet dependencies of p whether they are missing. One of them suffices.
func (ps *depProbes) probe(now causal.Now, p *put) {
	ps.staged.lastProbe++
	for _, d := range p.deps.Writes() {
		if w := ps.deps.awaited[d.Version]; w != nil && !w.processed {
			ps.send(now, d, false)
		}
	}
	for _, d := range p.deps.Lanes() {
		o := d.Version.Origin
		f := ps.frontiers.of(ps.cfg.Topology.Owner(ps.ring, d.Slot), o)
		if d.Version.HLC > max(f.received, ps.known.RV(ps.ring, o)) {
			ps.send(now, d, true)
		}
	}
}

func (ps *depProbes) send(now causal.Now, d causal.Dep, lane bool) {
	p := causal.DepProbe{ID: ps.staged.lastProbe, Incarnation: ps.cfg.Incarnation, Dep: d, Lane: lane,
		Map: ps.slotMap()}
	if to := ps.cfg.Topology.Owner(ps.ring, d.Slot); to != ps.cfg.Self {
		ps.Send(p.Message(ps.cfg.Self, to))
	} else {
		ps.answer(now, ps.cfg.Self, p)
	}
}

// answer answers if the dependency has certainly never been met here, before a restart either. A write that is
// staged itself has not been processed if one of its own dependencies is missing.
func (ps *depProbes) answer(now causal.Now, from topology.Node, p causal.DepProbe) {
	v := p.Dep.Version
	if !ps.usesSlotMap(p.Map) || !ps.owns(p.Dep.Slot) {
		return
	}
	q := ps.writes.pendingPut(v)
	switch {
	case p.Lane || q == nil:
		if !ps.host.isClean(v, p.Dep.Slot) && !ps.writes.isProcessed(v) && ps.neverReceived(v) {
			ps.reply(now, from, p)
		}
	case q.unprocessedDeps > 0: // who gets no answer asks again
		ps.staged.park(q, from, question{probe: &p, asker: from, since: ps.staged.lastProbe, parkedAt: now.Mono},
			now.Mono)
	}
}

// neverReceived reports whether the lane of v has certainly never been received up to v. After a restart this is known
// only when the coordinator itself has told how far it had sent the lane, and all of that is here again.
func (ps *depProbes) neverReceived(v causal.Version) bool {
	l := ps.lanes.of(v.Origin)
	if l == nil || v.HLC <= max(l.received, ps.known.RV(ps.ring, v.Origin)) {
		return false
	}
	return l.isInStep() || ps.cfg.Broken.Has(causal.MissingUnsynced)
}

func (ps *depProbes) reply(now causal.Now, to topology.Node, p causal.DepProbe) {
	d := causal.DepMissing{ID: p.ID, Incarnation: p.Incarnation, Dep: p.Dep, Lane: p.Lane}
	if to != ps.cfg.Self {
		ps.Send(d.Message(ps.cfg.Self, to))
	} else {
		ps.noteMissing(now, to, d)
	}
}

// noteMissing notes that the staged puts that wait for a dependency cannot be seen by who asked before the probe was
// sent.
func (ps *depProbes) noteMissing(now causal.Now, from topology.Node, d causal.DepMissing) {
	v := d.Dep.Version
	if d.Incarnation != ps.cfg.Incarnation || from != ps.cfg.Topology.Owner(ps.ring, d.Dep.Slot) {
		return
	}
	var lacking []*put
	if d.Lane {
		for _, w := range ps.frontiers.of(from, v.Origin).awaitReceived {
			if w.hlc >= v.HLC && (!w.put.adopted || ps.cfg.Broken.Has(causal.AdoptPassesStaged)) {
				// lanes do not say what precedes it
				lacking = append(lacking, w.put)
			}
		}
	} else if w := ps.deps.awaited[v]; w != nil && !w.processed {
		lacking = append(lacking, w.puts...)
	}
	for _, p := range lacking {
		if p.missingAsOf < d.ID {
			p.missingAsOf = d.ID
			ps.release(now, p)
		}
	}
}

// release answers the questions at p that arrived before one of its dependencies was missing.
func (ps *depProbes) release(now causal.Now, p *put) {
	questions := p.questions
	p.questions = nil
	for i := range questions {
		q := &questions[i]
		if q.since >= p.missingAsOf {
			p.questions = append(p.questions, *q)
			continue
		}
		ps.staged.unpark(*q)
		if q.probe != nil {
			ps.reply(now, q.asker, *q.probe)
		} else {
			ps.host.read(now, q.read)
		}
	}
}
