package wal

import "fmt"

// TruncateBefore removes the segments that hold only records below index, which the caller no longer needs. The active
// segment stays, and with it the index of the next record. With nothing to remove it does not touch the disk.
//
// A failed removal may be retried.
func (l *Log) TruncateBefore(index uint64) error {
	if err := l.reserve(); err != nil {
		return err
	}
	defer l.release()
	// Segments are removed oldest first, each one durably before the next: if a crash undid the removal of an older
	// segment but not that of a newer one, the log would have a hole.
	for len(l.segments) > 1 && l.segments[1].first <= index {
		oldest := l.segments[0]
		removed, err := l.retireSegment(oldest.first)
		l.mu.Lock()
		if removed {
			l.segments = l.segments[1:]
			l.bytes -= oldest.size
			if err != nil {
				_ = l.fail(err) // returned below, with the verb
			}
		}
		l.mu.Unlock()
		if err != nil {
			return fmt.Errorf("truncate write buffer log before record %d: %w", index, err)
		}
	}
	return nil
}
