package process

import (
	"fmt"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
)

// A session is what goes on while a member serves: a Shard starts, and what it asks for is proposed to the group. What
// fails at the start is tried again for some time, unless the session ends; meanwhile the group hands over, if there
// is a member that does not fail.

// The waits before what has failed is tried again. Whatever waits, there is one attempt at a time, so the load on a
// group or a storage that is in trouble is bounded.
const (
	retryFirst = 10 * time.Millisecond
	retryMax   = time.Second
	// startTimeout is how long a Shard may fail to start in a session before the member fails.
	startTimeout = 10 * time.Second
)

// startAttempts are the attempts to start a Shard in a session.
type startAttempts struct {
	failed  int   // since the last success
	since   int64 // of the first of these
	nextAt  int64
	refused bool // the Storage was told that this member cannot serve
}

// refusals are the proposals of a Shard that were refused. It gets to know that after a pause.
type refusals struct {
	list    []refusal
	attempt int // since the last proposal that was carried out
}

type refusal struct {
	at     int64
	effect uint64
	err    error
}

// completion is the result of an effect or, with a generation, of a read, of the Shard.
type completion struct {
	generation uint64
	read       middleman.StorageResult
	effect     uint64
	result     EffectResult
}

// settle begins and ends sessions, and passes on what is done.
func (m *Member) settle() {
	now := m.clock()
	if s := m.Session(); s != m.session {
		m.dropShard()
		m.session, m.start, m.refusals = s, startAttempts{}, refusals{}
	}
	if m.session == 0 || m.failure != nil || m.ended {
		return
	}
	m.superviseShard(now)
	m.done = m.Storage.Done(m.done[:0])
	for _, id := range m.done {
		if effect, ok := m.proposals[id]; ok {
			delete(m.proposals, id)
			m.refusals.attempt = 0
			m.complete(effect, EffectResult{})
		}
	}
	for r := &m.refusals; len(r.list) > 0 && r.list[0].at <= now.Mono; r.list = r.list[1:] {
		m.complete(r.list[0].effect, EffectResult{Err: r.list[0].err})
	}
	m.passHeld(now)
}

// dropShard ends the Shard. Its proposals may be committed or not; they are never reported as done.
func (m *Member) dropShard() {
	if m.shard != nil {
		m.generation = m.shard.generation + 1
	}
	m.shard, m.isReady, m.announced, m.held, m.checking = nil, false, causal.Leadership{}, nil, Effect{}
	clear(m.proposals)
}

// superviseShard starts the Shard of the session, another one in place of one that has failed, and tells the Storage
// whether that succeeds.
func (m *Member) superviseShard(now causal.Now) {
	switch {
	case m.shard == nil:
		if now.Mono >= m.start.nextAt && m.IsSettled() { // what an earlier one has proposed is applied
			m.startShard(now)
		}
	case m.shard.Failure() != nil:
		m.noteStartFailure(now, m.shard.Failure())
	case !m.isReady && m.shard.IsSettled():
		m.isReady = true
		if m.start.refused {
			m.SetCannotServe(now, false)
		}
		m.start = startAttempts{}
	}
	if m.isReady && m.shard.Topology() != m.topo {
		// if it is refused, it is tried again: there is an input whenever something ends that it waits for
		_ = m.shard.SetTopology(now, m.topo)
	}
}

func (m *Member) startShard(now causal.Now) {
	cfg := m.cfg.Shard
	cfg.ID, cfg.Middleman.Topology = m.cfg.NewID(), m.topo
	m.shard = newShard(cfg, now, &m.ids, m.generation)
}

func (m *Member) noteStartFailure(now causal.Now, err error) {
	m.dropShard()
	a := &m.start
	if a.failed == 0 {
		a.since = now.Mono
	}
	if now.Mono-a.since > int64(startTimeout) {
		m.failure = fmt.Errorf("start the middleman on this member: %w", err)
		return
	}
	a.nextAt = now.Mono + causal.Backoff(retryFirst, retryMax, a.failed, m.ids)
	a.failed++
	if !a.refused {
		a.refused = true
		m.SetCannotServe(now, true)
	}
}

// propose proposes the change of an effect of the Shard to the group.
func (m *Member) propose(e *Effect) {
	now := m.clock()
	if m.session != m.Session() {
		return
	}
	id, err := m.Propose(now, e.Change)
	if err != nil {
		r := &m.refusals
		r.list = append(r.list, refusal{now.Mono + causal.Backoff(retryFirst, retryMax, r.attempt, m.ids), e.ID,
			fmt.Errorf("replicate %d writes: %w", len(e.Change.Writes), err)})
		r.attempt++
		return
	}
	m.proposals[id] = e.ID
}

// complete passes the result of an effect to the Shard, or keeps it until the lease holds.
func (m *Member) complete(effect uint64, r EffectResult) {
	switch now := m.clock(); {
	case m.shard == nil || m.shard.running[effect] == nil: // that of an earlier Shard
	case m.canPass(now):
		m.pass(now, &completion{effect: effect, result: r})
	default:
		m.held = append(m.held, completion{effect: effect, result: r})
	}
}

// ReadDone takes the result of a read. It is dropped if the middleman that has asked serves no more.
func (m *Member) ReadDone(now causal.Now, generation uint64, r middleman.StorageResult) {
	switch m.now = now; {
	case m.shard == nil || m.shard.generation != generation:
	case m.canPass(now):
		m.shard.ReadDone(now, generation, r)
	default:
		m.held = append(m.held, completion{generation: generation, read: r})
	}
}

// canPass reports whether the Shard may get results, in whichever order. While it starts, nobody hears what it says.
func (m *Member) canPass(now causal.Now) bool {
	return m.holdsLease(now) && (!m.isReady || !m.announced.IsZero())
}

// passHeld passes on what has waited for the lease.
func (m *Member) passHeld(now causal.Now) {
	for len(m.held) > 0 && m.canPass(now) {
		next := m.held[0]
		if m.held = m.held[1:]; len(m.held) == 0 {
			m.held = nil
		}
		m.pass(now, &next)
	}
}

func (m *Member) pass(now causal.Now, c *completion) {
	if c.generation != 0 {
		m.shard.ReadDone(now, c.generation, c.read)
		return
	}
	if c.result.Err == nil { // the positions of a group count what all of its members have
		at := m.Applied()
		c.result.Position = causal.Position{Storage: at.Group, Changes: at.Position}
	}
	m.shard.Done(now, c.effect, c.result)
}
