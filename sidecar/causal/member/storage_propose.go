package member

import (
	"fmt"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// proposals are the changes of this session that are not applied yet, in order.
//
// Invariant: those before appended have the positions from first on, without gaps: nobody else appends to the log. The
// others wait until the log takes them.
type proposals struct {
	list         []proposal
	first        uint64
	appended     int
	reported     int // so many of the oldest are in done already; 0 but with rules broken
	waitingBytes int
	nextID       uint64 // ids are never used again, so those of an earlier session are not taken for others
	done         []uint64

	maxRecordBytes int
}

type proposal struct {
	id     uint64
	change Change
	data   []byte // encoded; nil when it was appended
}

// begin starts a session whose first change follows the record at a position.
func (p *proposals) begin(last uint64) { p.first = last + 1 }

// reset forgets the proposals of a session that is over. They may be committed or not.
func (p *proposals) reset() {
	p.list, p.appended, p.reported, p.waitingBytes, p.done = nil, 0, 0, 0, nil
}

func (p *proposals) push(c Change) (id uint64, err error) {
	data := c.AppendTo(nil)
	switch {
	case len(data) > p.maxRecordBytes:
		return 0, fmt.Errorf("%w: it has %d bytes, the limit is %d", group.ErrTooLarge, len(data), p.maxRecordBytes)
	case p.waitingBytes > 0 && p.waitingBytes+len(data) > maxWaitingBytes:
		return 0, group.ErrBusy
	}
	p.nextID++
	p.waitingBytes += len(data)
	p.list = append(p.list, proposal{p.nextID, c, data})
	return p.nextID, nil
}

// appendTo appends what waits to the log of a group, as far as that takes it. queued is what the storage is behind, in
// bytes.
func (p *proposals) appendTo(now causal.Now, g *group.Group, queued int) {
	for p.appended < len(p.list) && queued <= maxUnappliedBytes/2 {
		next := &p.list[p.appended]
		pos, err := g.Append(now, next.data)
		if err != nil {
			// it is tried again after the next input: at the latest when a change is committed, or the oldest are
			// collected
			return
		}
		if want := p.first + uint64(p.appended); pos != want {
			panic(fmt.Sprintf("change %d has got the position %d: somebody else appends to the log", want, pos))
		}
		p.waitingBytes -= len(next.data)
		next.data = nil
		p.appended++
	}
}

// at returns the change at a position, if it is a proposal of this session.
func (p *proposals) at(pos uint64) (Change, bool) {
	if pos < p.first || pos-p.first >= uint64(p.appended) {
		return Change{}, false
	}
	return p.list[pos-p.first].change, true
}

// apply says that the storage has the changes up to a position.
func (p *proposals) apply(pos uint64) {
	p.report(pos)
	n := p.reported
	p.list = slices.Delete(p.list, 0, n)
	p.appended, p.reported = p.appended-n, 0
	p.first += uint64(n)
}

// report says that the changes up to a position are done.
func (p *proposals) report(pos uint64) {
	for ; p.reported < p.appended && p.first+uint64(p.reported) <= pos; p.reported++ {
		p.done = append(p.done, p.list[p.reported].id)
	}
}

// Propose asks for a change, which is to be made when all members have it in their logs. It is retained. Done says when
// the storage of this member has it; until then it may be made or not, and when the session ends before, nobody says.
// Only while Session is not 0.
func (s *Storage) Propose(now causal.Now, c Change) (id uint64, err error) {
	s.now = now
	if s.session == 0 {
		return 0, errNotServing
	}
	if id, err = s.proposed.push(c); err != nil {
		return 0, err
	}
	s.settle(now)
	return id, nil
}

// Done appends the proposals that are committed and applied here to dst, in order; none while this member does not hold
// the lease.
func (s *Storage) Done(dst []uint64) []uint64 {
	if !s.HoldsLease(s.now) {
		return dst
	}
	dst = append(dst, s.proposed.done...)
	s.proposed.done = s.proposed.done[:0]
	return dst
}

// IsSettled reports whether nothing that was proposed here waits to be applied.
func (s *Storage) IsSettled() bool { return len(s.proposed.list) == 0 }
