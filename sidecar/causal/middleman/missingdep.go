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

// cannotBeSeen reports whether a dependency of p was missing at some time after a question arrived.
func (m *Middleman) cannotBeSeen(p *put, since uint64) bool {
	return p.missingAsOf > since || p.missingAsOf > 0 && m.cfg.Broken.Has(causal.MissingLongAgo)
}

// sendProbes probes for the puts that questions wait for.
func (m *Middleman) sendProbes(now causal.Now) {
	questioned := m.staged.questioned
	m.staged.questioned = nil
	for _, p := range questioned {
		if len(p.questions) == 0 {
			p.isQuestioned = false
			continue
		}
		m.staged.questioned = append(m.staged.questioned, p)
		if now.Mono >= p.probeAt {
			p.probeAt = now.Mono + int64(probeInterval)
			m.probe(now, p)
		}
	}
}

// probe asks the shards of the unmet dependencies of p whether they are missing. One of them suffices.
func (m *Middleman) probe(now causal.Now, p *put) {
	m.staged.lastProbe++
	for _, d := range p.deps.Writes() {
		if w := m.deps.awaited[d.Version]; w != nil && !w.processed {
			m.sendProbe(now, d, false)
		}
	}
	for _, d := range p.deps.Lanes() {
		o := d.Version.Origin
		f := m.frontiers.of(m.cfg.Topology.Owner(m.ring, d.Slot), o)
		if d.Version.HLC > max(f.received, m.known.RV(m.ring, o)) {
			m.sendProbe(now, d, true)
		}
	}
}

func (m *Middleman) sendProbe(now causal.Now, d causal.Dep, lane bool) {
	p := causal.DepProbe{ID: m.staged.lastProbe, Incarnation: m.cfg.Incarnation, Dep: d, Lane: lane, Map: m.slotMap()}
	if to := m.cfg.Topology.Owner(m.ring, d.Slot); to != m.cfg.Self {
		m.Send(p.Message(m.cfg.Self, to))
	} else {
		m.answerProbe(now, m.cfg.Self, p)
	}
}

// answerProbe answers if the dependency has certainly never been met here, before a restart either. A write that is
// staged itself has not been processed if one of its own dependencies is missing.
func (m *Middleman) answerProbe(now causal.Now, from topology.Node, p causal.DepProbe) {
	v := p.Dep.Version
	if !m.usesSlotMap(p.Map) || !m.owns(p.Dep.Slot) {
		return
	}
	q := m.writes.pendingPut(v)
	switch {
	case p.Lane || q == nil:
		if !m.isClean(v, p.Dep.Slot) && !m.writes.isProcessed(v) && m.neverReceived(v) {
			m.replyMissing(now, from, p)
		}
	case q.unprocessedDeps > 0: // who gets no answer asks again
		m.staged.park(q, from, question{probe: &p, asker: from, since: m.staged.lastProbe, parkedAt: now.Mono},
			now.Mono)
	}
}

// neverReceived reports whether the lane of v has certainly never been received up to v. After a restart this is known
// only when the coordinator itself has told how far it had sent the lane, and all of that is here again.
func (m *Middleman) neverReceived(v causal.Version) bool {
	l := m.lanes.of(v.Origin)
	if l == nil || v.HLC <= max(l.received, m.known.RV(m.ring, v.Origin)) {
		return false
	}
	return l.isInStep() || m.cfg.Broken.Has(causal.MissingUnsynced)
}

func (m *Middleman) replyMissing(now causal.Now, to topology.Node, p causal.DepProbe) {
	d := causal.DepMissing{ID: p.ID, Incarnation: p.Incarnation, Dep: p.Dep, Lane: p.Lane}
	if to != m.cfg.Self {
		m.Send(d.Message(m.cfg.Self, to))
	} else {
		m.noteMissing(now, to, d)
	}
}

// noteMissing notes that the staged puts that wait for a dependency cannot be seen by who asked before the probe was
// sent.
func (m *Middleman) noteMissing(now causal.Now, from topology.Node, d causal.DepMissing) {
	v := d.Dep.Version
	if d.Incarnation != m.cfg.Incarnation || from != m.cfg.Topology.Owner(m.ring, d.Dep.Slot) {
		return
	}
	var lacking []*put
	if d.Lane {
		for _, w := range m.frontiers.of(from, v.Origin).awaitReceived {
			if w.hlc >= v.HLC && (!w.put.adopted || m.cfg.Broken.Has(causal.AdoptPassesStaged)) {
				// lanes do not say what precedes it
				lacking = append(lacking, w.put)
			}
		}
	} else if w := m.deps.awaited[v]; w != nil && !w.processed {
		lacking = append(lacking, w.puts...)
	}
	for _, p := range lacking {
		if p.missingAsOf < d.ID {
			p.missingAsOf = d.ID
			m.releaseQuestions(now, p)
		}
	}
}

// releaseQuestions answers the questions at p that arrived before one of its dependencies was missing.
func (m *Middleman) releaseQuestions(now causal.Now, p *put) {
	questions := p.questions
	p.questions = nil
	for i := range questions {
		q := &questions[i]
		if q.since >= p.missingAsOf {
			p.questions = append(p.questions, *q)
			continue
		}
		m.staged.unpark(*q)
		if q.probe != nil {
			m.replyMissing(now, q.asker, *q.probe)
		} else {
			m.read(now, q.read)
		}
	}
}
