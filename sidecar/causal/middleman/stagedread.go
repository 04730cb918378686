package middleman

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Staged puts (PROTOCOL §5): a put that is here and may not be written yet is staged. A bound reader says how new the newest
// write is that its session has seen. If a staged put of the key is at or below that, the read is parked until it is written.

// stagedPuts are the puts whose write is not queued yet.
type stagedPuts struct {
	byKey       map[string][]*put
	parkedReads int // of all puts
}

// parkedRead is a read that waits for a staged put.
type parkedRead struct {
	request  readRequest
	parkedAt int64
}

const (
	// maxParkedReads bounds the parked reads.
	maxParkedReads = 1 << 14
	// parkedReadTTL is how long a read stays parked; its sidecar has long asked elsewhere by then.
	parkedReadTTL = 5 * time.Second
)

func newStagedPuts() stagedPuts { return stagedPuts{byKey: map[string][]*put{}} }

func (s *stagedPuts) add(p *put) { s.byKey[p.key] = append(s.byKey[p.key], p) }

func (s *stagedPuts) remove(p *put) {
	if ps := slices.DeleteFunc(s.byKey[p.key], func(q *put) bool { return q == p }); len(ps) > 0 {
		s.byKey[p.key] = ps
	} else {
		delete(s.byKey, p.key)
	}
}

// firstUpTo returns a staged put of the key at or below hlc, or nil.
func (s *stagedPuts) firstUpTo(key string, hlc causal.HLC) *put {
	for _, p := range s.byKey[key] {
		if p.record.Version.HLC <= hlc {
			return p
		}
	}
	return nil
}

// deferRead parks or refuses a read whose session may have to see a put that is not written yet, and reports whether it did.
func (m *Middleman) deferRead(now causal.Now, r *readRequest) bool {
	isBound := !r.fill && r.seen != 0 && (r.cut == 0 || r.snapshot)
	if !isBound {
		return false
	}
	if m.mayLackWritesUpTo(r.seen) {
		m.refuseRead(r, causal.ErrStarting)
		return true
	}
	if m.cfg.Broken.Has(causal.ReadPastStaged) {
		return false
	}
	p := m.staged.firstUpTo(r.key, r.seen)
	if p == nil {
		return false
	}
	if m.staged.parkedReads >= maxParkedReads {
		m.refuseRead(r, causal.ErrBusy)
		return true
	}
	p.parked = append(p.parked, parkedRead{*r, now.Mono})
	m.staged.parkedReads++
	return true
}

func (m *Middleman) refuseRead(r *readRequest, err causal.ErrCode) {
	m.Send(causal.GetReply{ID: r.id, Err: err}.Message(m.cfg.Self, r.from))
}

// unstage ends the staging of p: its write is in the queue of its key, so every later read of the key sees it.
func (m *Middleman) unstage(now causal.Now, p *put) {
	m.staged.remove(p)
	parked := p.parked
	p.parked = nil
	m.staged.parkedReads -= len(parked)
	for i := range parked {
		m.read(now, parked[i].request)
	}
}

func (m *Middleman) expireParkedReads(now causal.Now) {
	if m.staged.parkedReads == 0 {
		return
	}
	for _, p := range m.writes.pending {
		n := 0
		for n < len(p.parked) && now.Mono-p.parked[n].parkedAt > int64(parkedReadTTL) {
			n++
		}
		p.parked = p.parked[n:]
		m.staged.parkedReads -= n
	}
}
