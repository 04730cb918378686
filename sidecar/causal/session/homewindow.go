package session

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// homeWindow is gets that a client has sent one behind the other, at a level that asks the home (PROTOCOL HOK-1). They
// are answered in order, several together: as one MGET reads their keys. What that returns is one state of the store,
// and a later one than what was answered before. So each answer is one that its get could have got after the answer to
// the one before it, and the home is asked, and told, with one message for all.
type homeWindow struct {
	gets     []Op      // not answered, in order
	size     int       // of how many are read together next
	at       []int     // of those that are being read, the index of the key: each key is read once
	outcomes []Outcome // of the keys
}

const (
	// maxWindow is how many gets are read together at most.
	maxWindow = 256
	// maxWindowBytes is how much memory their keys may take.
	maxWindowBytes = 256 << 10
)

// startWindow starts gets of one session that follow each other.
func (s *Sidecar) startWindow(now causal.Now, gets []Op) {
	s.advanceWindow(now, &homeWindow{gets: slices.Clone(gets), size: maxWindow})
	s.advancePipelines(now)
	s.reap()
}

// advanceWindow reads the next gets.
func (s *Sidecar) advanceWindow(now causal.Now, w *homeWindow) {
	first := w.gets[0]
	ss := s.sessions[first.Session]
	if ss == nil {
		s.failWindow(w, len(w.gets), causal.ErrUnavailable)
		return
	}
	keys := w.nextKeys()
	if len(w.at) == 1 {
		c := s.newCall(now, first, ss)
		c.window = w
		s.calls = append(s.calls, c)
		s.startGet(now, c)
		return
	}
	w.outcomes = make([]Outcome, len(keys))
	c := s.newCall(now, Op{Kind: OpMGet, Session: first.Session, Keys: keys, Level: first.Level}, ss)
	c.window = w
	s.calls = append(s.calls, c)
	s.stats.Gets += uint64(len(w.at))
	s.startMGet(now, c)
	if c.bound {
		s.stats.BoundGets += uint64(len(w.at))
	}
}

// nextKeys chooses the gets to read next, and returns their keys, each once: two reads of a key for one MGET may find
// different versions of it, in any order.
func (w *homeWindow) nextKeys() (keys []string) {
	n := min(w.size, len(w.gets))
	if n == 1 {
		w.at = []int{0}
		return []string{w.gets[0].Key}
	}
	index := make(map[string]int, n)
	keys, w.at = make([]string, 0, n), make([]int, 0, n)
	bytes := 0
	for i := range n {
		key := w.gets[i].Key
		k, ok := index[key]
		if !ok {
			if bytes += len(key); bytes > maxWindowBytes && i > 0 {
				break
			}
			k = len(keys)
			index[key], keys = k, append(keys, key)
		}
		w.at = append(w.at, k)
	}
	return keys
}

// finishWindow answers the gets that a call has read. If it fails, they are read in smaller parts: the failure is
// perhaps that of one of them. But if time has run out, they fail.
func (s *Sidecar) finishWindow(c *call, r *Result) {
	w, n := c.window, len(c.window.at)
	err := r.Err
	if err == causal.OK && !s.answerWindow(c, r) {
		err = causal.ErrBusy
	}
	switch {
	case err == causal.OK:
		w.size = min(2*w.size, maxWindow)
	case c.session.closed:
		s.failWindow(w, len(w.gets), err)
	case n > 1 && !c.expired:
		w.size = n / 2
	case err == causal.ErrBusy: // if the client reads it again, later, it has to read those behind it again as well
		s.failWindow(w, len(w.gets), err)
	default:
		s.failWindow(w, n, err)
	}
	if len(w.gets) > 0 {
		s.leftWindows = append(s.leftWindows, w)
	}
}

// answerWindow answers gets with what a call has read. It returns false if the values take too much memory.
func (s *Sidecar) answerWindow(c *call, r *Result) bool {
	w := c.window
	if c.op.Kind == OpGet {
		r.Records, w.outcomes = []causal.Record{r.Record}, []Outcome{r.Outcome}
	}
	bytes := 0
	for _, k := range w.at {
		bytes += r.Records[k].Value.Size()
	}
	if s.cfg.MaxAheadBytes > 0 && s.aheadBytes+bytes > s.cfg.MaxAheadBytes {
		return false
	}
	s.aheadBytes += bytes
	for i, k := range w.at {
		o := w.outcomes[k]
		o.Bound = c.bound
		s.results = append(s.results, Result{ID: w.gets[i].ID, Record: r.Records[k], Outcome: o,
			Ahead: r.Records[k].Value.Size()})
	}
	w.gets = w.gets[len(w.at):]
	return true
}

// failWindow fails the first gets that are left.
func (s *Sidecar) failWindow(w *homeWindow, n int, err causal.ErrCode) {
	for i := range w.gets[:n] {
		s.results = append(s.results, Result{ID: w.gets[i].ID, Err: err})
	}
	w.gets = w.gets[n:]
}

// advanceWindows reads what is left of windows of which some gets were answered.
func (s *Sidecar) advanceWindows(now causal.Now) {
	for len(s.leftWindows) > 0 {
		n := len(s.leftWindows) - 1
		w := s.leftWindows[n]
		s.leftWindows = s.leftWindows[:n]
		s.advanceWindow(now, w)
	}
}
