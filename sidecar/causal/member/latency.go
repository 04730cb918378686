package member

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// CommitBounds are the upper bounds of the buckets of a CommitLatency, from a fast disk to a member that is dropped or
// a failover.
var CommitBounds = [...]time.Duration{250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond,
	2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second}

// CommitLatency counts commits by how long they took.
type CommitLatency struct {
	// Counts are those of the buckets; the last one is of what took longer than all bounds.
	Counts [len(CommitBounds) + 1]uint64
	Sum    time.Duration
}

func (l *CommitLatency) add(took time.Duration, records uint64) {
	i := 0
	for i < len(CommitBounds) && took > CommitBounds[i] {
		i++
	}
	l.Counts[i] += records
	l.Sum += took * time.Duration(records)
}

// Total returns how many records were committed.
func (l *CommitLatency) Total() (n uint64) {
	for _, c := range l.Counts {
		n += c
	}
	return n
}

// batch is records that were emitted at one time.
type batch struct {
	first, last uint64 // positions
	at          int64
}

// measure adds to l how long the records up to pos took, which are committed now.
func (q *recordQueue) measure(now causal.Now, pos uint64, l *CommitLatency) {
	n := 0
	for ; n < len(q.batches) && q.batches[n].first <= pos; n++ {
		b := &q.batches[n]
		last := min(b.last, pos)
		l.add(time.Duration(max(0, now.Mono-b.at)), last-b.first+1)
		if b.first = last + 1; b.first <= b.last {
			break
		}
	}
	if n > 0 {
		q.batches = q.batches[:copy(q.batches, q.batches[n:])]
	}
}
