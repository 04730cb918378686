package group

import "slices"

// log holds the records of a member that are not collected. Positions count from 1.
type log struct {
	// base is the position of the first record that is held or will be. 0 stands for 1: the zero log is empty.
	base    uint64
	records []held
	// runs lists the stamps from position base-1 on, in ascending order, with the first position of each that is known here.
	runs  []Run
	bytes int
}

// held is a record, and the index of its entry on the disk.
type held struct {
	Record
	index uint64
}

// Run says that a log has records with Stamp from position First up to the next run.
type Run struct {
	Stamp Stamp
	First uint64
}

// recordOverhead is what a record costs beside its data, in bytes.
const recordOverhead = 64

func (l *log) first() uint64 { return max(l.base, 1) }

func (l *log) last() uint64 { return l.first() - 1 + uint64(len(l.records)) }

func (l *log) at(pos uint64) *held { return &l.records[pos-l.first()] }

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
	return l.at(pos).Stamp
}

func (l *log) append(r Record, index uint64) {
	if n := len(l.runs); n == 0 || l.runs[n-1].Stamp != r.Stamp {
		l.runs = append(l.runs, Run{r.Stamp, l.last() + 1})
	}
	l.records = append(l.records, held{r, index})
	l.bytes += len(r.Data) + recordOverhead
}

// truncate removes the records from pos on; pos is not below the first.
func (l *log) truncate(pos uint64) {
	keep := min(pos-l.first(), uint64(len(l.records)))
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
	n := pos - l.first()
	for _, h := range l.records[:n] {
		l.bytes -= len(h.Data) + recordOverhead
	}
	clear(l.records[:n])
	l.records = l.records[n:]
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

// maxRuns bounds the runs in a Report. An intact member matches in the newest few: every session but the last was aligned.
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
