package group

import "slices"

// log holds the records of a member that are not collected. Positions count from 1.
type log struct {
	// base is the position of the first record that is not collected. 0 stands for 1: the zero log is empty.
	base uint64
	// records are those from position first()+released on; spans stand for the ones before them, which are no longer in
	// memory.
	records  []held
	released uint64
	spans    []span
	// runs lists the stamps from position base-1 on, in ascending order, with the first position of each that is known
	// here.
	runs  []Run
	bytes int
}

// held is a record, and the index of its entry on the disk.
type held struct {
	Record
	index uint64
}

// span stands for consecutive records that are on the disk only.
type span struct {
	first uint64 // position
	index uint64 // of the entry of the first record
	bytes int
}

// spanRecords and spanBytes bound the records of a span. What they count for is given back together.
const (
	spanRecords = 1024
	spanBytes   = 1 << 20
)

// Run says that a log has records with Stamp from position First up to the next run.
type Run struct {
	Stamp Stamp
	First uint64
}

// recordOverhead is what a record costs beside its data, in bytes.
const recordOverhead = 64

func (l *log) first() uint64 { return max(l.base, 1) }

func (l *log) last() uint64 { return l.first() - 1 + l.released + uint64(len(l.records)) }

// firstHeld is the position of the first record that is in memory or will be.
func (l *log) firstHeld() uint64 { return l.first() + l.released }

// at returns the record at a position that is in memory.
func (l *log) at(pos uint64) *held { return &l.records[pos-l.firstHeld()] }

// oldestIndex returns the index of the entry of the first record, or of one before it; 0: there is no record.
func (l *log) oldestIndex() uint64 {
	switch {
	case len(l.spans) > 0:
		return l.spans[0].index
	case len(l.records) > 0:
		return l.records[0].index
	}
	return 0
}

// release drops the records up to pos from memory. They stay in the log, and count for its size, until they are
// collected.
func (l *log) release(pos uint64) {
	first := l.firstHeld()
	if pos < first {
		return
	}
	n := int(min(pos+1-first, uint64(len(l.records))))
	for i := range l.records[:n] {
		h := &l.records[i]
		at := first + uint64(i)
		if last := len(l.spans) - 1; last < 0 || at-l.spans[last].first >= spanRecords ||
			l.spans[last].bytes >= spanBytes {
			l.spans = append(l.spans, span{first: at, index: h.index})
		}
		l.spans[len(l.spans)-1].bytes += len(h.Data) + recordOverhead
	}
	l.records = slices.Delete(l.records, 0, n) // in place: the array is used again
	l.released += uint64(n)
}

// knows reports whether the stamp at pos is known.
func (l *log) knows(pos uint64) bool { return pos+1 >= l.first() && pos <= l.last() }

// stamp returns the stamp at a position that is known. Before the first record it is the zero Stamp.
func (l *log) stamp(pos uint64) Stamp {
	if pos+1 == l.first() {
		if len(l.runs) > 0 && l.runs[0].First <= pos {
			return l.runs[0].Stamp
		}
		return Stamp{}
	}
	if pos < l.firstHeld() {
		i := len(l.runs) - 1
		for i > 0 && l.runs[i].First > pos {
			i--
		}
		return l.runs[i].Stamp
	}
	return l.at(pos).Stamp
}

func (l *log) append(r Record, index uint64) {
	if n := len(l.runs); n == 0 || l.runs[n-1].Stamp != r.Stamp {
		l.runs = append(l.runs, Run{r.Stamp, l.last() + 1})
	}
	l.records = append(l.records, held{r, index})
	l.bytes += len(r.Data) + recordOverhead
}

// truncate removes the records from pos on; pos is not below the first that is in memory.
func (l *log) truncate(pos uint64) {
	keep := min(pos-l.firstHeld(), uint64(len(l.records)))
	for _, h := range l.records[keep:] {
		l.bytes -= len(h.Data) + recordOverhead
	}
	clear(l.records[keep:])
	l.records = l.records[:keep]
	for n := len(l.runs); n > 0 && l.runs[n-1].First >= pos; n-- {
		l.runs = l.runs[:n-1]
	}
}

// collect removes the records before pos, which is at most one above the last.
func (l *log) collect(pos uint64) {
	if pos <= l.first() {
		return
	}
	anchor := l.stamp(pos - 1)
	if held := l.firstHeld(); pos >= held {
		n := pos - held
		for _, h := range l.records[:n] {
			l.bytes -= len(h.Data) + recordOverhead
		}
		clear(l.records[:n])
		l.records = l.records[n:]
		l.released = 0
	} else {
		l.released = held - pos
	}
	for len(l.spans) > 0 && (l.released == 0 || len(l.spans) > 1 && l.spans[1].first <= pos) {
		l.bytes -= l.spans[0].bytes
		l.spans = slices.Delete(l.spans, 0, 1)
	}
	l.base = pos
	for len(l.runs) > 1 && l.runs[1].First < pos {
		l.runs = l.runs[1:]
	}
	l.setAnchor(anchor)
}

// reset empties the log. Its next record has the position pos, and the one before it had the stamp anchor.
func (l *log) reset(pos uint64, anchor Stamp) {
	*l = log{base: pos}
	l.setAnchor(anchor)
}

// setAnchor notes the stamp of the record just before the first.
func (l *log) setAnchor(s Stamp) {
	before := l.first() - 1
	if s == (Stamp{}) || before == 0 {
		return
	}
	if len(l.runs) > 0 && l.runs[0].Stamp == s || len(l.runs) > 0 && l.runs[0].First <= before {
		l.runs[0] = Run{s, before}
		return
	}
	l.runs = slices.Insert(l.runs, 0, Run{s, before})
}

// maxRuns bounds the runs in a Report. An intact member matches in the newest few: every session but the last was
// aligned.
const maxRuns = 64

// tail returns the newest runs.
func (l *log) tail() []Run { return slices.Clone(l.runs[max(0, len(l.runs)-maxRuns):]) }

// match returns the greatest position up to which another log is known to be the same as this one.
func (l *log) match(base, last uint64, runs []Run) (uint64, bool) {
	end := last
	for i := len(runs) - 1; i >= 0; i-- {
		theirs := runs[i]
		if first, to, ok := l.run(theirs.Stamp); ok {
			if pos := min(to, end); pos >= first && pos >= theirs.First {
				return pos, true
			}
		}
		end = theirs.First - 1
	}
	return 0, l.first() == 1 && base <= 1 // nothing in common but the beginning
}

// run returns the positions that are known to have a stamp.
func (l *log) run(s Stamp) (first, last uint64, ok bool) {
	for i := len(l.runs) - 1; i >= 0; i-- {
		if l.runs[i].Stamp == s {
			last := l.last()
			if i+1 < len(l.runs) {
				last = l.runs[i+1].First - 1
			}
			return l.runs[i].First, last, true
		}
	}
	return 0, 0, false
}
