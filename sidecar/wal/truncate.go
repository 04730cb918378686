package wal

import "fmt"

// TruncateBefore gives back the segments that hold only records below index; the caller no longer needs those. The active
// segment stays, and with it the index of the next record. It is cheap when there is nothing to give back.
//
// A removal that fails may be tried again.
func (l *Log) TruncateBefore(index uint64) error {
	l.mu.Lock()
	for l.truncating {
		l.idle.Wait()
	}
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	l.truncating = true
	defer func() {
		l.truncating = false
		l.idle.Broadcast()
	}()
	for len(l.segments) > 1 && l.segments[1].first <= index {
		oldest := l.segments[0]
		l.mu.Unlock()
		removed, err := l.removeSegment(oldest.first)
		l.mu.Lock()
		if removed {
			l.segments = l.segments[1:]
			l.bytes -= oldest.size
		}
		if err != nil {
			if removed {
				l.fail(err)
			}
			return fmt.Errorf("truncate write buffer log before record %d: %w", index, err)
		}
	}
	return nil
}

// removeSegment removes a segment durably before the next one may go: were a later one gone and this one back
// after a crash, the log would have a hole.
func (l *Log) removeSegment(first uint64) (removed bool, err error) {
	path := l.segmentPath(first)
	if err := l.opts.FS.Remove(path); err != nil {
		return false, fmt.Errorf("remove segment %s: %w", path, err)
	}
	return true, syncDir(l.opts.FS, l.dir)
}
