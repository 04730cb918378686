package wal

import (
	"fmt"
	"sync"
)

const (
	// maxGroupBytes bounds a group of appends, so that the first of them does not wait for a very long write.
	maxGroupBytes = 1 << 20
	// keepBufferBytes is the largest buffer that is kept for the next group.
	keepBufferBytes = 2 * maxGroupBytes
)

// appender is a caller of Append who waits.
type appender struct {
	payloads [][]byte
	size     int64
	last     uint64
	err      error
	// turn is sent true when this caller is to commit the next group, false when its records are settled.
	turn chan bool
}

var appenders = sync.Pool{New: func() any { return &appender{turn: make(chan bool, 1)} }}

// Append adds the payloads as consecutive records and returns the index of the last one, once they are durable. The records
// of one call share one write, and so do those of callers that wait at the same time; a sync serves all of them. After an
// error other than ErrFull, ErrTooLarge, ErrReplay and ErrClosed the records may or may not be in the log when it
// is opened again. The payloads are not kept.
func (l *Log) Append(payloads [][]byte) (last uint64, err error) {
	var size int64
	for _, p := range payloads {
		size += recordSize(p)
	}
	if most := l.opts.SegmentBytes - segmentHeaderSize; size > most {
		return 0, fmt.Errorf("%w: %d bytes in one append, the segment size allows %d; raise the segment size or split the append",
			ErrTooLarge, size, most)
	}

	l.mu.Lock()
	if err := l.admit(size); err != nil {
		l.mu.Unlock()
		return 0, err
	}
	if len(payloads) == 0 {
		last := l.last
		l.mu.Unlock()
		return last, nil
	}
	a := appenders.Get().(*appender)
	a.payloads, a.size = payloads, size
	l.appended = true
	l.queue = append(l.queue, a)
	l.queued += size
	lead := !l.leading
	l.leading = true
	l.mu.Unlock()

	if !lead {
		lead = <-a.turn
	}
	if lead {
		l.commitGroup()
	}
	last, err = a.last, a.err
	a.payloads, a.last, a.err = nil, 0, nil
	appenders.Put(a)
	return last, err
}

// admit says whether an append of size bytes is accepted. Called with mu held.
func (l *Log) admit(size int64) error {
	if err := l.usable(); err != nil {
		return err
	}
	if used := l.bytes + l.queued; used+size > l.opts.MaxBytes {
		return fmt.Errorf("%w: it holds %d of at most %d bytes, with writes that some ring has yet to acknowledge; "+
			"try again when the slowest ring has caught up, or raise the bound", ErrFull, used, l.opts.MaxBytes)
	}
	return nil
}

// commitGroup writes and syncs the appends that wait, the caller's first among them, and hands the lead to the
// next one that waits.
func (l *Log) commitGroup() {
	l.mu.Lock()
	size := l.takeGroup()
	first, activeSize := l.last+1, l.segments[len(l.segments)-1].size
	l.mu.Unlock()

	last, err := l.writeGroup(first, size, activeSize)

	l.mu.Lock()
	l.queued -= size
	if err != nil {
		l.fail(err)
		err = l.failed // of all errors the first one says most
		// Nobody may write after it, so those who wait get the error too.
		for _, a := range l.queue {
			l.queued -= a.size
		}
		l.group = append(l.group, l.queue...)
		clear(l.queue)
		l.queue = l.queue[:0]
	} else {
		l.last = last
		l.bytes += size
		l.segments[len(l.segments)-1].size += size
	}
	group, leader := l.group, l.group[0]
	if err != nil {
		for _, a := range group {
			a.last, a.err = 0, err
		}
	}
	var next *appender
	if len(l.queue) > 0 {
		next = l.queue[0]
	} else {
		l.leading = false
		l.idle.Broadcast()
	}
	// Told while mu is held, since the next leader uses the same slice. Nobody blocks: each has one place in its channel.
	for _, a := range group {
		if a != leader {
			a.turn <- false
		}
	}
	clear(l.group)
	l.mu.Unlock()
	if next != nil {
		next.turn <- true
	}
}

// takeGroup moves waiting appends to the group, as many as share a write, and returns their size. Called with mu held.
func (l *Log) takeGroup() (size int64) {
	most := min(maxGroupBytes, l.opts.SegmentBytes-segmentHeaderSize)
	n := 0
	for n < len(l.queue) && (n == 0 || size+l.queue[n].size <= most) {
		size += l.queue[n].size
		n++
	}
	l.group = append(l.group[:0], l.queue[:n]...)
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	return size
}

// writeGroup makes the group durable as the records from first on, and returns the index of the last.
func (l *Log) writeGroup(first uint64, size, activeSize int64) (last uint64, err error) {
	if activeSize > segmentHeaderSize && activeSize+size > l.opts.SegmentBytes {
		// All of the old segment is synced, so a new one may begin: recovery relies on it.
		if err := l.begin(first); err != nil {
			return 0, err
		}
	}
	buf, index, ordinal := l.buf[:0], first, uint32(0)
	for _, a := range l.group {
		for _, p := range a.payloads {
			buf = appendRecord(buf, l.salt, index, ordinal, p)
			index++
			ordinal++
		}
		a.last = index - 1
	}
	if cap(buf) <= keepBufferBytes {
		l.buf = buf
	} else {
		l.buf = nil
	}
	if _, err := l.active.Write(buf); err != nil {
		return 0, fmt.Errorf("write records %d to %d: %w", first, index-1, err)
	}
	// One try: after a failed sync the kernel may have dropped the pages, and a second one would succeed without them.
	if err := l.active.Sync(); err != nil {
		return 0, fmt.Errorf("sync records %d to %d: %w", first, index-1, err)
	}
	return index - 1, nil
}
