package session

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// call is an operation that was started.
type call struct {
	op      Op
	use     uint64 // counts the operations that it was used for
	level   level
	session *session
	opCount uint64 // the session's when the operation was started
	// monotonic
	startedAt, deadline int64
	bound               bool // the session was bound when the operation was started
	finished            bool
	// a reply had a timestamp too far ahead of the clock
	refusedAhead bool

	// The request that is in flight, of kinds with one request at a time.
	slot      topology.Slot
	target    topology.Node
	requestID uint64 // see Sidecar.ask
	retryAt   int64  // monotonic: when another way is tried (gets, MGETs, resumptions)
	wait      int64  // how long the target may take to answer (gets, MGETs)
	lost      bool   // the target will not answer (gets)

	// Of gets. own is also the put that OpWait waits for.
	own       *ownWrite        // is returned if nothing greater is found
	tried     topology.RingSet // rings that were asked
	skipCache bool             // the cache did not answer
	replied   bool             // the target replied, but with nothing that can be used yet
	near      bool             // a near copy is the reply
	home      *homeRead        // of a level that asks the home

	// Of gets of a homeWindow, and the MGET that reads several of them.
	window  *homeWindow
	expired bool // time has run out
	late    Wait // what it waited for then

	// Of gets in a pipeline.
	pipeline *getPipeline
	started  bool
	// whatever it covers was complete when the request was sent, and is in the past of what that finds
	covers causal.Cut
	early  *causal.GetReply // waits for the answers to the gets before
	ahead  int              // bytes that count in Sidecar.aheadBytes

	put   putState
	locks *lockedCommit // of a commit of several homes

	lacking topology.Node // the part that does not read the value, as a coordinator has said

	// Of scans.
	scan    ScanPosition // where the request in flight is
	ownKeys []string     // of own writes, if the scan begins

	mget   *mget
	count  *count
	resume *resumption
}

// request is what a reply is matched to.
type request struct {
	call *call
	use  uint64 // of the call: it may have been used for another operation since
	key  int    // index in Op.Keys, for MGETs
}

// isAwaited reports whether the operation that has sent a request still waits for something.
func (r *request) isAwaited() bool { return r.use == r.call.use && !r.call.finished }

// requestTable holds the requests that wait for their reply, by id.
type requestTable struct {
	lastID uint64
	byID   map[uint64]request
	peak   int // of its length, since it was made
}

// add returns the id for a request of a call, for one of its keys.
func (t *requestTable) add(c *call, key int) uint64 {
	t.lastID++
	t.byID[t.lastID] = request{c, c.use, key}
	t.peak = max(t.peak, len(t.byID))
	return t.lastID
}

// ask returns the id for the request of a call of a kind that has one in flight at a time. What was asked before is
// given up: its answer, or that of a link that is up again, may be on its way, and would be taken for one to whatever
// the call is used for when it arrives.
func (s *Sidecar) ask(c *call) uint64 {
	if !s.cfg.Broken.Has(causal.RequestKept) {
		s.requests.drop(c.requestID)
	}
	c.requestID = s.requests.add(c, 0)
	return c.requestID
}

// take removes a request and returns it.
func (t *requestTable) take(id uint64) (request, bool) {
	r, ok := t.byID[id]
	t.drop(id)
	return r, ok
}

// drop removes a request: its reply will be ignored.
func (t *requestTable) drop(id uint64) {
	delete(t.byID, id)
	if len(t.byID) == 0 && t.peak > maxIdleCalls {
		t.byID, t.peak = map[uint64]request{}, 0 // a map does not shrink
	}
}

// newCall returns a call for op.
func (s *Sidecar) newCall(now causal.Now, op Op, ss *session) *call {
	timeout := op.Timeout
	switch {
	case timeout != 0:
	case op.Kind == OpPut:
		timeout = s.cfg.PutTimeout
	default:
		timeout = s.cfg.ReadTimeout
		timeout += timeout * time.Duration(len(op.Keys)) / keysPerTimeout
	}
	var c *call
	if n := len(s.freeCalls); n > 0 {
		c = s.freeCalls[n-1]
		s.freeCalls = s.freeCalls[:n-1]
	} else {
		c = &call{}
	}
	ss.opCount++
	*c = call{op: op, use: c.use + 1, level: s.levelOf(op.Level), session: ss, opCount: ss.opCount, startedAt: now.Mono,
		deadline: now.Mono + int64(timeout)}
	if op.Kind != OpPut && op.Kind != OpGet && op.Kind != OpWait && (!c.level.asksHome() || op.Kind != OpMGet &&
		op.Kind != OpScan) {
		s.leaveHome(now, ss) // a get does when it begins, which is later in a pipeline
	}
	return c
}

// reap removes the newest calls that are finished. Most calls finish long before the next tick, which removes the
// others.
func (s *Sidecar) reap() {
	for n := len(s.calls) - 1; n >= 0 && s.calls[n].finished; n-- {
		s.recycle(s.calls[n])
		s.calls[n] = nil
		s.calls = s.calls[:n]
	}
}

// maxIdleCalls bounds what is kept for later operations.
const maxIdleCalls = 4096

// recycle keeps a finished call for a later operation. Calls of other kinds may still be in blocked.
func (s *Sidecar) recycle(c *call) {
	if (c.op.Kind == OpGet || c.op.Kind == OpPut) && len(s.freeCalls) < maxIdleCalls {
		c.op.Key = "" // it may be a part of something larger
		s.freeCalls = append(s.freeCalls, c)
	}
}

// finish answers a call.
func (s *Sidecar) finish(c *call, r Result) {
	if c.finished {
		return
	}
	c.finished = true
	s.requests.drop(c.requestID)
	if c.pipeline != nil {
		s.leavePipeline(c, &r.Record)
		if r.Err != causal.OK {
			s.ReleaseAhead(c.ahead)
			c.ahead = 0
		}
		r.Ahead = c.ahead
	}
	if c.home != nil {
		s.requests.drop(c.home.request)
	}
	if c.mget != nil {
		s.dropRequests(c.mget.atHome.requests)
		s.dropRequests(c.mget.round.requests)
		s.forgetReplies(c.mget)
		s.mgetBytes -= c.mget.keys
	}
	if c.locks != nil {
		s.requests.drop(c.locks.request)
		s.endLocks(c.session, c)
	}
	if c.count != nil {
		s.dropRequests(c.count.requests)
	}
	if c.window != nil {
		s.finishWindow(c, &r)
		return
	}
	r.ID, r.Outcome.Bound = c.op.ID, c.bound
	s.results = append(s.results, r)
}

func (s *Sidecar) dropRequests(ids []uint64) {
	for _, id := range ids {
		s.requests.drop(id)
	}
}

// fail answers a call with an error.
func (s *Sidecar) fail(c *call, err causal.ErrCode) {
	if c.finished {
		return
	}
	if err == causal.ErrUnavailable {
		s.stats.UnavailableOps++
	}
	if c.locks != nil {
		err = s.endLocked(c, err)
	}
	if c.op.Kind == OpPut && !c.isLocking() {
		c.session.pipeline.remove(c)
	}
	if c.op.Kind == OpPut {
		if err == causal.ErrUnknown {
			s.stats.UnknownPuts++
		}
	}
	r := Result{Err: err}
	if err == causal.ErrUnavailable {
		r.Wait = c.late
	}
	if err == causal.ErrLocked {
		r.Locked = c.lockedKey()
	}
	if err == causal.ErrFormat {
		r.Lacking = c.lacking
	}
	s.finish(c, r)
}

// TakeResults appends the results of finished operations to dst and forgets them.
func (s *Sidecar) TakeResults(dst []Result) []Result {
	dst = append(dst, s.results...)
	s.results = causal.Recycle(s.results)
	return dst
}
