package member

import (
	"fmt"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// recordQueue takes the records of a coordinator to the log of its group, in order.
//
// The coordinator knows a record by the position that it will have: it is the only one who appends, so positions have
// no gaps.
type recordQueue struct {
	next uint64 // position of the next record of the coordinator
	// waiting are encoded records that the group does not take yet, the last of them just below next.
	waiting      [][]byte
	waitingBytes int

	// marks are positions about collectBytes apart; noted is the size of the records since the last one.
	collectBytes int
	marks        []uint64
	noted        int

	// batches are the records that are not committed yet, in order, with the time at which they were emitted.
	batches []batch

	// recycle: the memory of records is used again when they are committed, since the group does not keep them.
	recycle bool
	used    []chunk // oldest first; the last one is being filled
	spare   [][]byte
}

// chunk holds encoded records.
type chunk struct {
	buf  []byte
	last uint64 // position of the last record in it
}

const (
	// defaultCollectBytes is about how much of the log is collected at a time, in bytes. Collecting costs two entries
	// on the disk.
	defaultCollectBytes = 1 << 20
	// chunkBytes is the size of a chunk whose memory is used again, if no record is larger.
	chunkBytes = 256 << 10
	// maxSpare bounds the chunks that are kept for use.
	maxSpare = 16
)

// push encodes records and adds them to the queue.
func (q *recordQueue) push(now causal.Now, records []coordinator.LogRecord) {
	if len(records) > 0 {
		q.batches = append(q.batches, batch{first: q.next, last: q.next + uint64(len(records)) - 1, at: now.Mono})
	}
	for i := range records {
		size := records[i].SizeHint()
		c := q.chunk(size, records[i:])
		start := len(c.buf)
		c.buf = records[i].AppendTo(c.buf)
		c.last = q.next
		q.next++
		data := c.buf[start:len(c.buf):len(c.buf)]
		q.waiting = append(q.waiting, data)
		q.waitingBytes += len(data)
	}
}

// chunk returns the chunk that the first of some records goes to.
func (q *recordQueue) chunk(size int, records []coordinator.LogRecord) *chunk {
	if n := len(q.used); n > 0 && cap(q.used[n-1].buf)-len(q.used[n-1].buf) >= size {
		return &q.used[n-1]
	}
	switch {
	case q.recycle && size <= chunkBytes && len(q.spare) > 0:
		last := len(q.spare) - 1
		q.used = append(q.used, chunk{buf: q.spare[last][:0]})
		q.spare = q.spare[:last]
	case q.recycle:
		q.used = append(q.used, chunk{buf: make([]byte, 0, max(size, chunkBytes))})
	default: // the group keeps the records, and lets them go one by one
		total := 0
		for i := range records {
			if total += records[i].SizeHint(); total > chunkBytes {
				break
			}
		}
		q.used = append(q.used[:0], chunk{buf: make([]byte, 0, max(size, min(total, chunkBytes)))})
	}
	return &q.used[len(q.used)-1]
}

// release uses the memory of the records up to pos again. They are committed, so they are durable, and nobody reads
// them.
func (q *recordQueue) release(pos uint64) {
	for q.recycle && len(q.used) > 0 && q.used[0].last <= pos {
		if c := q.used[0]; cap(c.buf) == chunkBytes && len(q.spare) < maxSpare {
			q.spare = append(q.spare, c.buf)
		}
		q.used = slices.Delete(q.used, 0, 1)
	}
}

// appendTo appends what waits to the log of a group, as far as that takes it.
func (q *recordQueue) appendTo(now causal.Now, g *group.Group) {
	n := 0
	for ; n < len(q.waiting); n++ {
		data := q.waiting[n]
		pos, err := g.Append(now, data)
		if err != nil {
			// it is tried again after the next input: at the latest when a record is committed, or the oldest are
			// collected
			break
		}
		if want := q.next - uint64(len(q.waiting)-n); pos != want {
			panic(fmt.Sprintf("record %d has got the position %d: somebody else appends to the log", want, pos))
		}
		q.waitingBytes -= len(data)
		q.noteAppended(pos, len(data))
	}
	q.waiting = slices.Delete(q.waiting, 0, n)
}

// noteAppended notes that the log has a record of a size.
func (q *recordQueue) noteAppended(pos uint64, size int) {
	if q.noted += size; q.noted >= q.collectBytes {
		q.marks, q.noted = append(q.marks, pos), 0
	}
}

// collectable returns the position before which the log is to be collected now, if the records before some position are
// needed no more; 0: not yet.
func (q *recordQueue) collectable(before uint64) uint64 {
	n := 0
	for n < len(q.marks) && q.marks[n] < before {
		n++
	}
	if n == 0 {
		return 0
	}
	q.marks = slices.Delete(q.marks, 0, n)
	return before
}
