package middleman

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/topology"
)

// Staged puts (PROTOCOL LAN-3): a put that is here and may not be written yet is staged. A bound reader says how new
// the newest write is that its session has seen. If a staged put of the key is at or below that, the read is parked
// until it is written, or until it is known that the session cannot have seen anything that follows it (missingdep.go).

// stagedPuts are the puts whose write is not queued yet.
type stagedPuts struct {
	byKey      map[string]*put
	bytes      map[topology.Origin]int
	parked     causal.Quota // of questions at all puts
	questioned []*put       // puts with questions, each once; some have none any more
	lastProbe  uint64       // how many probes were sent
}

// question is a read, or a probe of another shard, that waits for a staged put.
type question struct {
	read     readRequest      // unless probe is set
	probe    *causal.DepProbe // of asker
	asker    topology.Node
	since    uint64 // the last probe that was sent when it arrived
	parkedAt int64
	holder   causal.Holder
}

const (
	// maxStagedBytes bounds the staged puts of one origin that its coordinator has sent: four times what may be in
	// flight, and a put. Others are not taken, and are sent again. maxStagedAdopted is the same for those that adopters
	// have sent, beside these: what a leader may have collected.
	maxStagedBytes, maxStagedAdopted = 64 << 20, 128 << 20
	// stagedOverhead is about what a staged put takes beside its key, value and dependencies, in bytes.
	stagedOverhead = 512
	// maxParkedQuestions bounds the questions, and maxParkedOfOne those of one identity.
	maxParkedQuestions, maxParkedOfOne = 1 << 14, 1 << 12
	// parkedTTL is how long a question stays parked; its sidecar has long asked elsewhere by then.
	parkedTTL = 5 * time.Second
)

func newStagedPuts(ownerOf func(topology.Node) string) stagedPuts {
	return stagedPuts{byKey: map[string]*put{}, bytes: map[topology.Origin]int{},
		parked: causal.Quota{Total: maxParkedQuestions, Each: maxParkedOfOne, OwnerOf: ownerOf}}
}

// hasRoom reports whether a put may be staged, with what its origin has staged. A single put always may.
func (s *stagedPuts) hasRoom(o topology.Origin, bytes, limit int) bool {
	is := s.bytes[o]
	return is == 0 || is+bytes <= limit
}

// stagedSize is about what a staged put takes, in bytes.
func stagedSize(key string, r *causal.Record, deps int) int {
	return stagedOverhead + len(key) + r.Value.Size() + causal.MissingDepBytes*deps
}

func (s *stagedPuts) add(p *put) {
	p.stagedBytes = stagedSize(p.key, &p.record, p.deps.Len())
	s.bytes[p.record.Version.Origin] += p.stagedBytes
	last := s.byKey[p.key]
	if last == nil {
		s.byKey[p.key] = p
		return
	}
	for last.next != nil {
		last = last.next
	}
	last.next = p
}

func (s *stagedPuts) remove(p *put) {
	o := p.record.Version.Origin
	if s.bytes[o] -= p.stagedBytes; s.bytes[o] == 0 {
		delete(s.bytes, o)
	}
	first := s.byKey[p.key]
	switch {
	case first == p && p.next == nil:
		delete(s.byKey, p.key)
	case first == p:
		s.byKey[p.key] = p.next
	default:
		for q := first; q != nil; q = q.next {
			if q.next == p {
				q.next = p.next
				break
			}
		}
	}
	p.next = nil
}

// Staged returns the versions of a key that have arrived and are not written yet, in the order in which they came.
func (m *Middleman) Staged(key string) (versions []causal.Version) {
	for p := m.staged.byKey[key]; p != nil; p = p.next {
		versions = append(versions, p.record.Version)
	}
	return versions
}

// hasEarlier reports whether an earlier put of the key of p is staged.
func (s *stagedPuts) hasEarlier(p *put) bool {
	for q := s.byKey[p.key]; q != nil; q = q.next {
		if keystate.Newer(&p.record, &q.record) {
			return true
		}
	}
	return false
}

// park makes a question of a node wait for p, if there is room for it.
func (s *stagedPuts) park(p *put, of topology.Node, q question, probeAt int64) (parked bool) {
	if q.holder, parked = s.parked.Take(of); !parked {
		return false
	}
	if !p.isQuestioned {
		s.questioned, p.isQuestioned = append(s.questioned, p), true
	}
	if len(p.questions) == 0 {
		p.probeAt = max(p.probeAt, probeAt)
	}
	p.questions = append(p.questions, q)
	return true
}

// unpark ends that questions wait.
func (s *stagedPuts) unpark(questions ...question) {
	for i := range questions {
		s.parked.Release(questions[i].holder, 1)
	}
}

// deferRead parks or refuses a read whose session may have to see a put that is not written yet, and reports whether it
// did.
func (m *Middleman) deferRead(now causal.Now, r *readRequest) bool {
	if r.fill || r.seen == 0 {
		return false // everything that its session has seen is complete
	}
	upTo := r.seen
	if r.cut != 0 && !r.snapshot {
		upTo = min(upTo, r.cut)
	}
	if m.mayLackWritesUpTo(upTo) {
		m.refuseRead(r, causal.ErrStarting)
		return true
	}
	if m.cfg.Broken.Has(causal.ReadPastStaged) {
		return false
	}
	p := m.awaitedPut(r, upTo)
	if p == nil {
		return false
	}
	probeAt := now.Mono + int64(probeDelay)
	if p.missingAsOf > 0 {
		probeAt = now.Mono
	}
	r.key = p.key // the bound on questions does not bound their keys, of up to 64 KiB
	if !m.staged.park(p, r.from, question{read: *r, since: r.since, parkedAt: now.Mono}, probeAt) {
		m.refuseRead(r, causal.ErrBusy)
	}
	return true
}

// awaitedPut returns a staged put at or below upTo that a read must wait for, or nil.
func (m *Middleman) awaitedPut(r *readRequest, upTo causal.HLC) *put {
	for p := m.staged.byKey[r.key]; p != nil; p = p.next {
		if p.record.Version.HLC <= upTo && !m.probes.cannotBeSeen(p, r.since) {
			return p
		}
	}
	return nil
}

func (m *Middleman) refuseRead(r *readRequest, err causal.ErrCode) {
	m.Send(causal.GetReply{ID: r.id, Err: err}.Message(m.cfg.Self, r.from))
}

// unstage ends the staging of p: its write is in the queue of its key, so every later read of the key sees it. Who has
// probed for p is told when it is processed.
func (m *Middleman) unstage(now causal.Now, p *put) {
	m.staged.remove(p)
	questions := p.questions
	p.questions, p.deps = nil, causal.DepList{}
	m.staged.unpark(questions...)
	for i := range questions {
		if questions[i].probe == nil {
			m.read(now, questions[i].read)
		}
	}
	m.writeLater(now, p)
}

// writeLater queues the writes that waited for p only.
func (m *Middleman) writeLater(now causal.Now, p *put) {
	for q := m.staged.byKey[p.key]; q != nil; {
		next := q.next
		if q.awaitsEarlier && !m.staged.hasEarlier(q) {
			q.awaitsEarlier = false
			m.write(now, q)
			next = m.staged.byKey[p.key] // that may have queued others
		}
		q = next
	}
}

func (m *Middleman) expireQuestions(now causal.Now) {
	for _, p := range m.staged.questioned {
		p.questions = slices.DeleteFunc(p.questions, func(q question) bool {
			late := now.Mono-q.parkedAt > int64(parkedTTL)
			if late {
				m.staged.unpark(q)
			}
			return late
		})
	}
}
