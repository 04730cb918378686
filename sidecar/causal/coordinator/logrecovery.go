package coordinator

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A log that is lost with all of its copies can be given up by a person (PROTOCOL LOG). Then a log
// of a greater generation begins with what the shards hold of the origin: every shard refuses puts of earlier
// generations from the time on when it is asked, and answers with what it holds above SV. What no shard holds is lost.

// logRecovery collects what the shards hold, and at a leader the terms of the other coordinators, which the lost log
// had. It is not durable: until it has ended, a restart finds a log that is lost, as before.
type logRecovery struct {
	collector[recoveryPage, *recoveredWrite]
	generation uint64
	terms      map[uint64]MembershipTerm // of the other coordinators, by index
	homes      causal.Homes              // the newest that the other coordinators know
	sv, seen   causal.HLC
	askTermsAt int64
}

// recoveryPage is the page of a shard that is being read.
type recoveryPage struct {
	cursor  string          // where it begins
	parts   map[uint64]bool // that have come, all of one edition
	edition uint64
}

// recoveredWrite is a write of the lost log that a shard has.
type recoveredWrite struct{ causal.Moved }

func (w *recoveredWrite) hlc() causal.HLC { return w.Record.Version.HLC }

// recoveredLog is what a log begins with.
type recoveredLog struct {
	generation uint64
	// above is above every timestamp that the lost log may have issued; sv is the SV of the origin.
	above, sv causal.HLC
	writes    []*recoveredWrite // above sv, ascending
	// terms are those of the other coordinators, by index, and shards the incarnations of the shards that were read.
	terms  map[uint64]MembershipTerm
	shards map[topology.Node]uint64
	homes  causal.Homes
}

const (
	// recoveryInterval is when a page is asked for again that has not come.
	recoveryInterval = 500 * time.Millisecond
	// maxPageParts bounds the messages of one page.
	maxPageParts = 1 << 16
)

// newLogRecovery begins a recovery. The wall clock makes the generation greater than those of earlier attempts, of
// which a message may be late.
func newLogRecovery(s *shared, now causal.Now) *logRecovery {
	r := &logRecovery{generation: uint64(now.WallMs), seen: max(s.known.MaxRV(), causal.HLCAt(now.WallMs)),
		terms: map[uint64]MembershipTerm{}}
	r.collector = collector[recoveryPage, *recoveredWrite]{shared: s, origin: s.origin, interval: recoveryInterval,
		question: r.question}
	r.restart()
	return r
}

func (r *logRecovery) question(of *source[recoveryPage], shard topology.Node) causal.Message {
	return causal.Salvage{ID: r.cfg.Incarnation, Generation: r.generation,
		After: of.after.cursor}.Message(r.cfg.Self, shard)
}

// step handles the answer of a shard, or of another coordinator.
func (r *logRecovery) step(now causal.Now, m *causal.Message) {
	switch m.Kind {
	case causal.KindSalvaged:
		r.takePage(now, m.From, m.Salvaged())
	case causal.KindTermAnswer:
		r.takeTerm(now, m.From, m.TermAnswer())
	}
}

// tick asks for what is missing. It returns the log to begin with once nothing is. The clock has to start above
// everything that was seen, and above what the lost log may have issued without being heard: a timestamp is at most the
// bound ahead of the wall clock.
func (r *logRecovery) tick(now causal.Now) (log recoveredLog, done bool) {
	if r.isResharding() {
		r.restart()
		return log, false
	}
	r.ask(now)
	r.askForTerms(now)
	above := r.seen + causal.HLCAt(r.cfg.ClockBoundMs)
	if len(r.waiting()) > 0 || above > causal.HLCAt(now.WallMs) {
		return log, false
	}
	r.dropUpTo(max(r.sv, r.known.SV(r.origin)))
	log = recoveredLog{generation: r.generation, above: above, sv: r.sv, writes: r.ascending(), terms: r.terms,
		shards: map[topology.Node]uint64{}, homes: r.homes}
	for n, s := range r.sources {
		log.shards[n] = s.incarnation
	}
	return log, true
}

// waiting returns the shards and coordinators that have not answered yet.
func (r *logRecovery) waiting() []topology.Node { return append(r.unread(), r.silentCoordinators()...) }

// silentCoordinators are those whose terms the leader has to know and does not.
func (r *logRecovery) silentCoordinators() (silent []topology.Node) {
	if !r.isLeader() {
		return nil
	}
	for i := 1; i < r.cfg.Topology.DCs[r.cfg.Self.DC].RunningCoordinators(); i++ {
		if _, told := r.terms[uint64(i)]; !told {
			silent = append(silent, topology.Node{DC: r.cfg.Self.DC, Part: topology.Coordinator, Index: uint64(i)})
		}
	}
	return silent
}

func (r *logRecovery) askForTerms(now causal.Now) {
	if now.Mono < r.askTermsAt {
		return
	}
	r.askTermsAt = now.Mono + int64(pastQueryInterval)
	for _, n := range r.silentCoordinators() {
		r.Send(causal.TermQuery{ID: r.cfg.Incarnation}.Message(r.cfg.Self, n))
	}
}

// takePage takes a part of a page.
func (r *logRecovery) takePage(now causal.Now, from topology.Node, p causal.Salvaged) {
	shard := r.sources[from]
	if p.ID != r.cfg.Incarnation || from.Part != topology.Middleman || shard == nil {
		return
	}
	page := &shard.after
	switch {
	case p.Refused && !r.isPlausible(now, p.Generation): // no attempt has got there yet
		return
	case p.Refused && p.Generation >= r.generation: // an earlier attempt has got there, or the shard has restarted
		r.generation = p.Generation + 1
		r.restart()
		return
	case p.Refused || p.Generation != r.generation || p.After != page.cursor || shard.done || p.Part >= p.Parts ||
		p.Parts > maxPageParts:
		return
	case p.Failed:
		*shard = source[recoveryPage]{askAt: now.Mono + int64(recoveryInterval)}
		return
	}
	if !r.isPlausibleIncarnation(now, p.Incarnation) {
		return
	}
	limit := r.limit.At(now)
	r.sv, r.seen = max(r.sv, min(p.SV, limit)), max(r.seen, min(p.Seen, limit))
	shard.incarnation = max(shard.incarnation, p.Incarnation)
	for _, m := range p.Records {
		v := m.Record.Version
		if !r.collects(v, limit) {
			continue
		}
		if w := r.writes[v.HLC]; w != nil {
			w.Moved = m
		} else {
			r.add(&recoveredWrite{m})
		}
		r.seen = max(r.seen, v.HLC)
	}
	if page.parts == nil || p.Edition != page.edition {
		page.parts, page.edition = map[uint64]bool{}, p.Edition
	}
	if page.parts[p.Part] = true; uint64(len(page.parts)) < p.Parts {
		return
	}
	page.cursor, page.parts, shard.done, shard.askAt = p.Next, nil, p.Next == "", 0
	r.askShard(now, from)
}

// takeTerm takes the term of another coordinator: of one that the topology has, since only these are asked. A term of
// another one would wait for somebody who never comes.
func (r *logRecovery) takeTerm(now causal.Now, from topology.Node, a causal.TermAnswer) {
	if a.ID != r.cfg.Incarnation || from.DC != r.cfg.Self.DC ||
		from.Index >= uint64(r.cfg.Topology.DCs[from.DC].RunningCoordinators()) ||
		!MembershipTerm(a.Term).isReachableFrom(0) {
		return
	}
	r.terms[from.Index] = MembershipTerm(a.Term)
	if a.Homes.Number > r.homes.Number && a.Homes.Count <= topology.MaxCoordinators {
		r.homes = a.Homes
	}
	r.seen = max(r.seen, min(a.UpTo, r.limit.At(now)))
}
