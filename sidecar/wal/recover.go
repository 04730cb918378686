package wal

import (
	"errors"
	"fmt"
)

// CorruptError says that the disk lost or changed synced data, or that a file was removed, cut or replaced.
type CorruptError struct {
	// File is the path of the segment, or of the watermark.
	File string
	// Offset is where the damage begins, in bytes.
	Offset int64
	// Problem describes the damage.
	Problem string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("damaged: %s at byte %d: %s. Acknowledged writes may be missing, so the log was not opened. "+
		"Keep a copy of the directory, check the disk, and put back the directory as it was when the coordinator "+
		"stopped, from a mirror or from a volume snapshot taken since. Do not start the coordinator on an empty "+
		"directory or on an older copy: no other part holds the writes that had not reached every ring, and versions "+
		"would be assigned twice (docs/disasters.md, The log of a coordinator is damaged)", e.File, e.Offset, e.Problem)
}

// FormatError says that a segment has a format that this version of the program does not read.
type FormatError struct {
	// Segment is the path of the file.
	Segment string
	// Found is the format version of the file, Supported the only one that this program reads and writes.
	Found, Supported uint32
}

func (e *FormatError) Error() string {
	return fmt.Sprintf(
		"segment %s has format version %d, and this program reads format version %d only. Run the release that wrote "+
			"it, and take the coordinator out of its data center with that release, which drains the log "+
			"(docs/operations.md, Changing coordinators); then start this release on an empty directory", e.Segment,
		e.Found, e.Supported)
}

// recoverSegments verifies the segments, cuts off a torn tail, and prepares the last segment for appends.
func (l *Log) recoverSegments() error {
	firsts, err := l.listSegments()
	if err != nil {
		return err
	}
	if len(firsts) == 0 {
		return l.startLog()
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
			return l.recoverLast(first, data, salt, end, next, bad)
		}
		// What is behind the last record of a segment is what its file held before.
		if next != firsts[i+1] {
			if bad == nil || next > firsts[i+1] {
				bad = &damage{offset: end,
					problem: fmt.Sprintf("it ends before record %d, and the next segment begins with record %d",
						next, firsts[i+1])}
			}
			return &CorruptError{File: path, Offset: bad.offset, Problem: bad.problem}
		}
		l.segments = append(l.segments, segment{first: first, size: end})
		l.bytes += end
	}
	return nil
}

// startLog makes the first segment of a log that has none. The watermark comes first, so that there is one whenever
// there are segments.
func (l *Log) startLog() error {
	acknowledged, _, err := l.readWatermark()
	if err != nil {
		return err
	}
	if acknowledged > 0 && !l.opts.acceptLostTail {
		return &CorruptError{File: l.dir,
			Problem: fmt.Sprintf(
				"it has no segments, and its file %s says that the log was acknowledged up to record %d",
				watermarkName, acknowledged)}
	}
	if err := l.installWatermark(0); err != nil {
		return err
	}
	return l.startSegment(1)
}

// recoverLast makes the last segment, whose intact records end at end, the active one.
//
// The intact part is written again even if nothing is cut off. The data just read may be in the page cache only:
// because the process was killed before its sync, or because a sync failed, after which the kernel considers the pages
// clean and no later sync writes them. A record that Replay returns must not disappear in the next crash, for its index
// would then be assigned to another record.
func (l *Log) recoverLast(first uint64, data []byte, salt uint32, end int64, next uint64, bad *damage) error {
	path := l.segmentPath(first)
	if bad != nil && !bad.torn {
		return &CorruptError{File: path, Offset: bad.offset, Problem: bad.problem}
	}
	if err := l.checkWatermark(path, end, next, bad); err != nil {
		return err
	}
	if bad != nil {
		l.opts.Logger.Info(
			"write buffer log ends with bytes that are no acknowledged record: an incomplete write, or what its file "+
				"held before; cutting them off",
			"segment", path, "offset", end, "bytes", int64(len(data))-end, "problem", bad.problem, "lastIndex", next-1)
	}
	f, err := l.installFile(path, data[:end])
	switch {
	case errors.Is(err, ErrNoSpace):
		l.opts.Logger.Warn("no space for a copy of the last segment; writing it again in place", "segment", path,
			"err", err)
		err = l.rewriteInPlace(first, data, end)
	case err == nil:
		l.active = f
	}
	if err != nil {
		return err
	}
	l.salt = salt
	l.segments = append(l.segments, segment{first: first, size: end})
	l.bytes += end
	l.last = next - 1
	if err := l.installWatermark(l.last); err != nil {
		return err
	}
	// The segment size may have been reduced since. The active segment is never truncated, so it must not hold most of
	// the space.
	if end > l.opts.SegmentBytes {
		return l.startSegment(next)
	}
	return nil
}

// Replay calls fn for every retained record in order. That may include records below the index of the last
// TruncateBefore, which removes whole segments only. The payload is valid until fn returns. Replay stops at the first
// error of fn and returns it unwrapped. It may be called several times before the first Append. fn must not use the
// log.
func (l *Log) Replay(fn func(index uint64, payload []byte) error) error {
	if err := l.reserve(); err != nil {
		return err
	}
	defer l.release()
	if l.appended {
		return ErrReplay
	}
	l.mu.Lock()
	l.replaying = true
	l.mu.Unlock()

	var data []byte
	for _, s := range l.segments {
		var err error
		if data, err = l.readSegment(s.first, data); err != nil {
			return fmt.Errorf("replay write buffer log: %w", err)
		}
		data = data[:min(int64(len(data)), s.size)] // without what is behind the last record
		// Open has verified every record, so a failure now means that the disk returns different data each time.
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
			return &CorruptError{File: l.segmentPath(s.first), Offset: bad.offset, Problem: bad.problem}
		}
	}
	return nil
}
