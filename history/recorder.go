package history

import "sync"

// Recorder collects a history in memory. It is safe for concurrent use; each process adds its own operations in order.
type Recorder struct {
	mu  sync.Mutex
	ops History
}

// Add appends a finished operation.
func (r *Recorder) Add(op Op) {
	r.mu.Lock()
	r.ops = append(r.ops, op)
	r.mu.Unlock()
}

// History returns what was added so far. The caller must not modify it.
func (r *Recorder) History() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ops[:len(r.ops):len(r.ops)]
}

// Reset discards everything, so that the recorder's memory serves another history. A history that was returned before
// must not be used afterwards.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.ops)
	r.ops = r.ops[:0]
}
