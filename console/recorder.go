package console

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// Interval is the time between two snapshots, where taking one costs little.
	Interval = time.Second
	// Retention is how long they are kept.
	Retention = 10 * time.Minute
	// maxMarks bounds the marks that are kept.
	maxMarks = 300
	// Sessions are marked when they are bound and released, of those that are bound in bindWindow at most maxBinds: a
	// load that binds many must neither hide faults nor make what is streamed long.
	maxBinds   = 8
	bindWindow = time.Minute
)

// Recorder takes snapshots and keeps those of the last ten minutes.
type Recorder struct {
	take     func() Snapshot
	interval time.Duration
	now      chan struct{} // asks for a snapshot at once
	done     chan struct{}
	ends     chan struct{}

	mu      sync.Mutex
	frames  []frame // the oldest first, none older than Retention
	marks   []Mark  // the oldest first
	marked  uint64  // counts changes of marks
	changed chan struct{}
	last    *Snapshot
	parts   map[string]partSince // by data center and part
	bound   map[sessionID]boundSince
	binds   []int64 // when sessions were marked as bound, at most maxBinds of them, the oldest first
	closed  bool
}

type partSince struct {
	state PartState
	at    int64 // 0: since before the recording began
}

type boundSince struct {
	at     time.Time
	marked bool // so its release is to be marked too
}

type sessionID struct {
	dc string
	id uint64
}

// NewRecorder starts a recorder. take returns the present state; it is called by one goroutine at a time, first by this
// one.
func NewRecorder(interval time.Duration, take func() Snapshot) *Recorder {
	r := &Recorder{take: take, interval: interval, now: make(chan struct{}, 1), done: make(chan struct{}),
		ends:    make(chan struct{}),
		changed: make(chan struct{}), parts: map[string]partSince{}, bound: map[sessionID]boundSince{}}
	r.record()
	go r.run()
	return r
}

func (r *Recorder) run() {
	defer close(r.ends)
	ticker := time.NewTicker(r.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-r.now:
		case <-r.done:
			return
		}
		r.record()
	}
}

// Close ends the recording.
func (r *Recorder) Close() {
	r.mu.Lock()
	closed := r.closed
	r.closed = true
	r.mu.Unlock()
	if !closed {
		close(r.done)
	}
	<-r.ends
}

// Mark notes an event of this moment and takes a snapshot at once.
func (r *Recorder) Mark(m Mark) {
	m.AtMs = time.Now().UnixMilli()
	r.mu.Lock()
	r.mark(m)
	r.notify()
	r.mu.Unlock()
	select {
	case r.now <- struct{}{}:
	default: // one is due already
	}
}

func (r *Recorder) mark(m Mark) {
	if len(r.marks) == maxMarks {
		r.marks = slices.Delete(r.marks, 0, 1)
	}
	r.marks = append(r.marks, m)
	r.marked++
}

// notify wakes all who wait for a change.
func (r *Recorder) notify() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// record takes one snapshot.
func (r *Recorder) record() {
	s := r.take()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.complete(&s)
	r.frames = append(r.frames, newFrame(&s))
	oldest := s.AtMs - Retention.Milliseconds()
	r.frames = slices.DeleteFunc(r.frames, func(f frame) bool { return f.atMs < oldest })
	r.marks = slices.DeleteFunc(r.marks, func(m Mark) bool { return m.AtMs < oldest })
	r.last = &s
	r.notify()
}

// complete adds what can be told only by comparison with earlier snapshots: rates, durations, and marks of changes.
func (r *Recorder) complete(s *Snapshot) {
	var seconds float64
	before := map[string]*DataCenter{}
	links := map[[2]string]*uint64{}
	if r.last != nil {
		seconds = float64(s.AtMs-r.last.AtMs) / 1e3
		for i := range r.last.DataCenters {
			before[r.last.DataCenters[i].Name] = &r.last.DataCenters[i]
		}
		for _, l := range r.last.Links {
			links[[2]string{l.A, l.B}] = l.Bytes
		}
	}
	bound := map[sessionID]boundSince{}
	for i := range s.DataCenters {
		dc := &s.DataCenters[i]
		if b := before[dc.Name]; b != nil && b.Counters != nil && dc.Counters != nil && seconds > 0 {
			dc.Rates = rates(*b.Counters, *dc.Counters, seconds)
		}
		r.ageParts(s.AtMs, dc)
		for j := range dc.Listed {
			is := &dc.Listed[j]
			id := sessionID{dc.Name, is.ID}
			since, ok := r.bound[id]
			if !ok {
				since = boundSince{time.UnixMilli(s.AtMs), r.markBound(s.AtMs, dc.Name, is)}
			}
			bound[id] = since
			is.SinceMs = s.AtMs - since.at.UnixMilli()
		}
		r.markReleased(s.AtMs, dc, bound)
	}
	r.bound = bound
	for i := range s.Links {
		l := &s.Links[i]
		if b := links[[2]string{l.A, l.B}]; b != nil && l.Bytes != nil && seconds > 0 && *l.Bytes >= *b {
			perSecond := float64(*l.Bytes-*b) / seconds
			l.BytesPerSecond = &perSecond
		}
	}
}

// markBound marks that a session is bound, unless many others were lately. It reports whether it did.
func (r *Recorder) markBound(at int64, dc string, is *Session) bool {
	if len(r.binds) == maxBinds {
		if at-r.binds[0] < bindWindow.Milliseconds() {
			return false
		}
		r.binds = slices.Delete(r.binds, 0, 1)
	}
	r.binds = append(r.binds, at)
	text := fmt.Sprintf("a session of %s is bound", dc)
	if len(is.WaitsFor) > 0 {
		text += ": it waits for " + strings.Join(is.WaitsFor, ", ")
	}
	r.mark(Mark{AtMs: at, Kind: MarkSession, Text: text})
	return true
}

// markReleased marks the release of those sessions of a data center of which the begin was marked. Those that are bound
// and not listed, as too many are, cannot be told from those that are released: then all that were marked are kept in
// bound.
func (r *Recorder) markReleased(at int64, dc *DataCenter, bound map[sessionID]boundSince) {
	unlisted := dc.Listed == nil || dc.Bound != nil && *dc.Bound > len(dc.Listed)
	for id, was := range r.bound {
		if _, still := bound[id]; id.dc != dc.Name || still || !was.marked {
			continue
		}
		if unlisted {
			bound[id] = was
			continue
		}
		r.mark(Mark{AtMs: at, Kind: MarkSession, Text: fmt.Sprintf("a session of %s is released", dc.Name)})
	}
}

// ageParts sets since when the parts of a data center are in their states, and marks the changes.
func (r *Recorder) ageParts(at int64, dc *DataCenter) {
	for i := range dc.Parts {
		p := &dc.Parts[i]
		key := dc.Name + "/" + p.Name
		was, known := r.parts[key]
		if was.state != p.State {
			if known {
				r.mark(Mark{AtMs: at, Kind: MarkChange,
					Text: fmt.Sprintf("%s of %s: %s, was %s", p.Name, dc.Name, p.State, was.state)})
				was.at = at
			}
			was.state = p.State
			r.parts[key] = was
		}
		if was.at != 0 {
			since := at - was.at
			p.SinceMs = &since
		}
	}
}

func rates(a, b Counters, seconds float64) *Rates {
	per := func(a, b uint64) float64 {
		if b < a { // it has restarted
			return 0
		}
		return float64(b-a) / seconds
	}
	return &Rates{Own: per(a.Own, b.Own), Near: per(a.Near, b.Near), Home: per(a.Home, b.Home),
		Cache: per(a.Cache, b.Cache), Local: per(a.Local, b.Local), Remote: per(a.Remote, b.Remote),
		Writes: per(a.Writes, b.Writes), Failed: per(a.Failed, b.Failed)}
}

// news is what the pages that are open are told.
type news struct {
	newest  frame
	marks   []Mark
	marked  uint64          // counts changes of marks
	changed <-chan struct{} // is closed when there is something newer
}

func (r *Recorder) news() news {
	r.mu.Lock()
	defer r.mu.Unlock()
	return news{r.frames[len(r.frames)-1], append([]Mark{}, r.marks...), r.marked, r.changed}
}

// at returns the newest frame that is not newer than a time, or the oldest one.
func (r *Recorder) at(ms int64) frame {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.frames[0]
	for _, f := range r.frames {
		if f.atMs > ms {
			break
		}
		found = f
	}
	return found
}
