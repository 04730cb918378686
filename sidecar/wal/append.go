package wal

import (
	"errors"
	"fmt"
)

// maxRetainedBuffer is the largest buffer that is kept for the next append, in bytes.
const maxRetainedBuffer = 2 << 20

// Append adds the payloads as consecutive records and returns the index of the last one once all of them are durable.
// One call is one write and one sync: a caller that has several records passes them together. Calls that overlap run
// one after another. The payloads are not retained.
//
// After any error other than ErrFull, ErrTooLarge, ErrReplay and ErrClosed, the records may or may not be in the log
// the next time it is opened. After ErrNoSpace the same payloads may be appended again, and no others.
func (l *Log) Append(payloads [][]byte) (last uint64, err error) {
	var size int64
	for _, p := range payloads {
		size += recordSize(p)
	}
	if limit := l.opts.SegmentBytes - segmentHeaderSize; size > limit {
		return 0,
			fmt.Errorf(
				"%w: %d bytes in one append, the segment size allows %d; raise the segment size or split the append",
				ErrTooLarge, size, limit)
	}
	if err := l.reserve(); err != nil {
		return 0, err
	}
	defer l.release()
	if l.bytes+size > l.opts.MaxBytes {
		return 0, fmt.Errorf("%w: it holds %d of at most %d bytes, with writes that some ring has yet to acknowledge; "+
			"try again when the slowest ring has caught up, or raise the limit", ErrFull, l.bytes, l.opts.MaxBytes)
	}
	if len(payloads) == 0 {
		return l.last, nil
	}
	last, err = l.write(payloads, size)

	l.mu.Lock()
	defer l.mu.Unlock()
	l.appended = true
	switch {
	case errors.Is(err, ErrNoSpace):
		return 0, err
	case err != nil:
		return 0, l.fail(err)
	}
	l.last = last
	l.bytes += size
	l.segments[len(l.segments)-1].size += size
	return last, nil
}

// write makes the payloads durable as the next records, and returns the index of the last one. Called by the holder of
// the reservation.
func (l *Log) write(payloads [][]byte, size int64) (last uint64, err error) {
	first := l.last + 1
	if active := l.segments[len(l.segments)-1].size; active > segmentHeaderSize && active+size > l.opts.SegmentBytes {
		// The old segment is synced as a whole, which recovery relies on.
		if err := l.startSegment(first); err != nil {
			return 0, err
		}
		if err := l.installWatermark(l.last); err != nil {
			return 0, err
		}
	}
	buf := l.encode(l.buf[:0], first, payloads)
	last = first + uint64(len(payloads)) - 1
	if cap(buf) <= maxRetainedBuffer {
		l.buf = buf
	} else {
		l.buf = nil
	}
	rest, err := l.unfinished.continueWrite(buf)
	if err != nil {
		return 0, err
	}
	if n, err := l.active.Write(rest); err != nil {
		err = wrapNoSpace(fmt.Errorf("write records %d to %d: %w", first, last, err))
		if errors.Is(err, ErrNoSpace) {
			l.unfinished.stop(l.encode(nil, first, payloads), n) // not buf: a file may use it as it likes
		}
		return 0, err
	}
	l.unfinished = unfinished{}
	// No retry: after a failed sync the kernel may have dropped the dirty pages, and a second sync would succeed
	// without having written them.
	if err := l.active.SyncData(); err != nil {
		return 0, fmt.Errorf("sync records %d to %d: %w", first, last, err)
	}
	if err := l.raiseWatermark(last); err != nil {
		return 0, err
	}
	return last, nil
}

// encode appends the payloads to dst, as the records of one write of which first is the first.
func (l *Log) encode(dst []byte, first uint64, payloads [][]byte) []byte {
	for i, p := range payloads {
		dst = appendRecord(dst, l.salt, first+uint64(i), uint32(i), p)
	}
	return dst
}
