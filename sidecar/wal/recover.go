package wal

import "fmt"

// CorruptError says that the disk lost or changed what it had synced, or that a segment was removed or replaced.
type CorruptError struct {
	// Segment is the path of the file.
	Segment string
	// Offset is where the damage begins in it, in bytes.
	Offset int64
	// Problem says what is wrong there.
	Problem string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("segment %s is damaged at byte %d: %s. Acknowledged writes may be missing, so the log is not opened. "+
		"Keep a copy of the directory, check the disk, and put back an undamaged copy of the segments; if there is none, "+
		"let the chain successor propagate its copy and start with an empty directory, which gives up the writes that only "+
		"this log held", e.Segment, e.Offset, e.Problem)
}

// restore verifies the segments, cuts off a torn tail, and makes the last segment ready for appending.
func (l *Log) restore() error {
	firsts, err := l.listSegments()
	if err != nil {
		return err
	}
	if len(firsts) == 0 {
		return l.begin(1)
	}
	var data []byte
	for i, first := range firsts {
		if data, err = l.readSegment(first, data); err != nil {
			return err
		}
		path := l.segmentPath(first)
		salt, err := parseSegmentHeader(data, path, first)
		if err != nil {
			return err
		}
		end, next, bad, _ := scanRecords(data, salt, first, nil)
		if i == len(firsts)-1 {
			return l.restoreLast(first, data, salt, end, next, bad)
		}
		if bad == nil && next != firsts[i+1] {
			bad = &damage{offset: end, problem: fmt.Sprintf("it ends before record %d, and the next segment begins with record %d",
				next, firsts[i+1])}
		}
		if bad != nil {
			return &CorruptError{Segment: path, Offset: bad.offset, Problem: bad.problem}
		}
		l.segments = append(l.segments, segment{first: first, size: end})
		l.bytes += end
	}
	return nil
}

// restoreLast makes the last segment, whose intact records end at end, the active one.
//
// The intact part is written again, also when nothing is to be cut off. What was read may be in the page cache only: of a
// process that was killed before its sync, or, after a sync that failed, in pages that the kernel takes for clean and no
// sync writes any more. Records that Replay shows must not be gone after the next crash, for their index
// would then name another record.
func (l *Log) restoreLast(first uint64, data []byte, salt uint32, end int64, next uint64, bad *damage) error {
	path := l.segmentPath(first)
	if bad != nil {
		if !bad.torn {
			return &CorruptError{Segment: path, Offset: bad.offset, Problem: bad.problem}
		}
		l.opts.Logger.Warn("write buffer log ends with an unfinished write, which was never acknowledged; cutting it off",
			"segment", path, "offset", end, "bytes", int64(len(data))-end, "problem", bad.problem, "lastIndex", next-1)
	}
	f, err := l.install(first, data[:end])
	if err != nil {
		return err
	}
	l.active, l.salt = f, salt
	l.segments = append(l.segments, segment{first: first, size: end})
	l.bytes += end
	l.last = next - 1
	// Segments may have become smaller since: the active one is never truncated, so it must not hold most of the space.
	if end > l.opts.SegmentBytes {
		return l.begin(next)
	}
	return nil
}

// Replay calls fn for every retained record in order; that may include records below the index of the last
// TruncateBefore, which gives back whole segments only. The payload is valid until fn returns. Replay ends with the first
// error of fn, and returns it as it is. It may be called again until the first Append. fn must not use the log.
func (l *Log) Replay(fn func(index uint64, payload []byte) error) error {
	l.mu.Lock()
	for l.truncating {
		l.idle.Wait()
	}
	err := l.usable()
	if err == nil && l.appended {
		err = ErrReplay
	}
	if err != nil {
		l.mu.Unlock()
		return err
	}
	l.replaying = true
	segments := l.segments
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.replaying = false
		l.idle.Broadcast()
		l.mu.Unlock()
	}()

	var data []byte
	for _, s := range segments {
		if data, err = l.readSegment(s.first, data); err != nil {
			return fmt.Errorf("replay write buffer log: %w", err)
		}
		// Open has verified it all, so anything wrong now is a disk that gives different answers.
		salt, err := parseSegmentHeader(data, l.segmentPath(s.first), s.first)
		if err != nil {
			return err
		}
		end, _, bad, err := scanRecords(data, salt, s.first, fn)
		if err != nil {
			return err
		}
		if bad == nil && end != s.size {
			bad = &damage{offset: end, problem: fmt.Sprintf("it had %d bytes when the log was opened", s.size)}
		}
		if bad != nil {
			return &CorruptError{Segment: l.segmentPath(s.first), Offset: bad.offset, Problem: bad.problem}
		}
	}
	return nil
}
