package middleman

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// writes is what is known about single writes beyond the vectors.
type writes struct {
	byVersion map[causal.Version]*write
	// pending, processed, complete and pasts are how many of them there are of each kind.
	pending, processed, complete, pasts int

	room []write  // for the next ones, which are allocated together
	idle []*write // those of writes that were forgotten are used again
}

// write is what is known about a write. It is forgotten when nothing is.
type write struct {
	put       *put       // until it is acknowledged here
	past      causal.HLC // the greatest HLC in its past; 0: not kept
	processed bool       // and RV did not cover it when that was last checked
	clean     bool       // processed, clean
	complete  bool       // as its coordinator has told, and SV did not cover it when that was last checked
	key       string     // once processed, for the StatusPerKey mutation
}

const (
	// writesRoom is for how many writes room is allocated at a time, and maxIdleWrites how much is kept for use.
	writesRoom, maxIdleWrites = 32, 1 << 14
	// maxCompleteMarks bounds the marks of complete writes above SV.
	maxCompleteMarks = 1 << 20
	// maxPasts bounds the writes whose past is kept.
	maxPasts = 1 << 17
)

// pastKept is for how long after a write its past is kept: the base of reads at a cut is above older ones, or soon will
// be.
var pastKept = causal.HLCAt((2 * time.Second).Milliseconds())

func newWrites() writes { return writes{byVersion: map[causal.Version]*write{}} }

// find returns what is known of a write, or nil. The result is valid until purge.
func (ws *writes) find(v causal.Version) *write { return ws.byVersion[v] }

// get returns what is known of a write, of which something is to be noted.
func (ws *writes) get(v causal.Version) *write {
	if w := ws.byVersion[v]; w != nil {
		return w
	}
	return ws.add(v)
}

// add begins to note something of a write of which nothing is known.
func (ws *writes) add(v causal.Version) (w *write) {
	if last := len(ws.idle) - 1; last >= 0 {
		w, ws.idle = ws.idle[last], ws.idle[:last]
	} else {
		if len(ws.room) == 0 {
			ws.room = make([]write, writesRoom)
		}
		w, ws.room = &ws.room[0], ws.room[1:]
	}
	ws.byVersion[v] = w
	return w
}

// pendingPut returns the put of a write that is not acknowledged, or nil.
func (ws *writes) pendingPut(v causal.Version) *put {
	if w := ws.byVersion[v]; w != nil {
		return w.put
	}
	return nil
}

// isProcessed reports whether a write is processed, and RV did not cover it when that was last checked.
func (ws *writes) isProcessed(v causal.Version) bool {
	w := ws.byVersion[v]
	return w != nil && w.processed
}

// stage notes a put. It is pending until it is acknowledged.
func (ws *writes) stage(w *write, p *put) {
	w.put, p.write = p, w
	ws.pending++
}

// acknowledge ends that a put is pending. It returns false if it is not.
func (ws *writes) acknowledge(p *put) bool {
	if p.write.put != p {
		return false
	}
	p.write.put = nil
	ws.pending--
	return true
}

// markProcessed notes that a write is processed. Unless it was before, it is not known to be clean.
func (ws *writes) markProcessed(w *write, key string) {
	if !w.processed {
		w.processed = true
		ws.processed++
	}
	w.key = key
}

// markComplete notes that a write is complete.
func (ws *writes) markComplete(v causal.Version) *write {
	w := ws.get(v)
	if !w.complete {
		w.complete = true
		ws.complete++
	}
	return w
}

// notePast keeps the greatest HLC in the past of a write.
func (ws *writes) notePast(w *write, past causal.HLC) {
	if past == 0 || ws.pasts >= maxPasts {
		return
	}
	if w.past == 0 {
		ws.pasts++
	}
	w.past = past
}

// isMarkedComplete reports whether the coordinator has told that w is complete. w may be nil.
func (w *write) isMarkedComplete() bool { return w != nil && w.complete }

// markClean notes that w is clean, if it is known to be processed. w may be nil.
func (w *write) markClean() {
	if w != nil && w.processed {
		w.clean = true
	}
}

// purge forgets what the vectors cover, and the past of what is complete with all that is older, or old.
func (ws *writes) purge(known *causal.Stability, ring topology.RingID) {
	newest := known.MaxSV()
	pastUpTo := max(known.MinSV(), newest-min(newest, pastKept))
	// safe at any time: these writes count as in-flight until SV passes them
	dropMarks := ws.complete > maxCompleteMarks
	for v, w := range ws.byVersion {
		if w.processed && w.clean && (w.complete || known.ProcessedIn(ring, v)) {
			w.processed, w.clean, w.key = false, false, ""
			ws.processed--
		}
		if w.complete && (dropMarks || known.Complete(v)) {
			w.complete = false
			ws.complete--
		}
		if w.past != 0 && v.HLC <= pastUpTo {
			w.past = 0
			ws.pasts--
		}
		if *w == (write{}) {
			delete(ws.byVersion, v)
			if len(ws.idle) < maxIdleWrites {
				ws.idle = append(ws.idle, w)
			}
		}
	}
}
