package history

import "github.com/causalstore/causalstore/sidecar/causal"

// Checker checks histories. It reuses its memory from one history to the next, for callers that check many. It is not
// safe for concurrent use.
//
// Algorithm: operations are the nodes of a graph whose edges generate happens-before. The checker walks them in
// topological order with a vector clock each: how many operations of each process are in its past. A clock lives until
// the last successor has taken it over, so memory grows with the number of pending nodes, not with the history. For
// each key and process the writes are sorted, so "the last write of k by p in this past" is a binary search.
// Explanations need more than the clocks; they search the graph again, but only for the violations that are shown.
type Checker struct {
	h       History
	places  []int // of its operations in the history that is checked; nil: the same
	names   names
	ops     []opInfo
	elems   []elem
	procs   []procInfo
	keys    []keyInfo
	stats   Stats
	found   []finding
	invalid []finding

	graph
	keyWrites
	walk
	conflicts []conflict
	// compactNext is the number of conflicts at which they are compacted.
	compactNext int
	unsettled   []unsettled
	marks       marks
	cycles      []cycle
}

type role uint8

const (
	// ignored operations failed: they are not part of the graph.
	ignored role = iota
	// chained operations succeeded: each is before the next one of its process.
	chained
	// floating operations are writes of unknown outcome: before nothing but the operations that have read them.
	floating
)

// opInfo is what the checker knows about an operation. References to other operations are indices, -1 for none.
type opInfo struct {
	// lane and pos locate the operation in clocks: it is in the past of clock c iff c[lane] >= pos. A chained
	// operation's lane is its process; a floating write gets one when it is walked, if some read returned it.
	lane, pos int32
	proc      int32
	key       int32 // of Put and Delete
	prev      int32 // the chained operation before it in its process
	epoch     int32 // the node for what its session's other processes had ended before its start
	extra     int32 // the token it resumes, or for a final read the node of "everything else"
	elems     span  // of Get and MGet
	readers   int32
	next      int32 // another floating write, or another delete if chained, of the same key
	nextDel   int32
	// nextReplacing is another put or delete of the same key.
	nextReplacing int32
	role          role
	kind          OpKind
	version       causal.Version
}

func (o *opInfo) isWrite() bool   { return o.kind == Put || o.kind == Delete || o.kind == Add }
func (o *opInfo) versioned() bool { return !o.version.IsZero() }

type span struct{ from, to int32 }

func (s span) len() int { return int(s.to - s.from) }

// elem is one key that was read.
type elem struct {
	op, key int32
	at      int32 // index into Op.Reads; -1 for a Get
	part    int32 // index into Parts; -1: the value is one write
	write   int32 // the write that was read; -1 if unknown
	missing bool
	thin    bool // no write has this value or version
	version causal.Version
}

type procInfo struct {
	session string
	id      int32 // of the session
	last    int32 // operation, chained
	lastAny int32
	ops     int32 // chained
	final   bool
}

type keyInfo struct {
	groups     span
	floats     int32 // list through opInfo.next
	deletes    int32 // list through opInfo.nextDel
	greatest   int32 // of the walked writes with a version
	unsettled  int32 // list of reads of "missing" that no walked delete explains yet
	final      int32 // the first final elem
	incomplete bool  // some write has no version
	blind      bool  // some read of "missing" has no version
	replacing  int32 // list of puts and deletes through opInfo.nextReplacing
	merges     bool  // some write is an add
}

// Check checks a history.
func Check(h History, opts Options) Report {
	var c Checker
	return c.Check(h, opts)
}

// Check checks a history. The report is deterministic and does not refer to the checker's memory.
func (c *Checker) Check(h History, opts Options) Report {
	limit := opts.MaxViolations
	if limit <= 0 {
		limit = defaultMaxViolations
	}
	c.reset(h, opts.AddsUp)
	c.index()
	if len(c.invalid) > 0 {
		return c.report(c.invalid, limit)
	}
	c.resolveReads()
	c.orderVersions()
	c.buildGraph()
	c.groupWrites()
	c.walkAll()
	c.checkFinals()
	if c.walkedAll() {
		c.settleRest()
		c.checkConflicts()
	} else {
		c.findCycles() // operations on or after a cycle have no past to check them against
	}
	return c.report(c.found, limit)
}

func (c *Checker) reset(h History, addsUp bool) {
	var updates int
	plain, places := withoutCommits(h)
	c.h, c.places, updates = withoutUpdates(plain, addsUp)
	c.places = inPlaces(c.places, places)
	c.names.reset()
	c.ops = sized(c.ops, len(c.h))
	c.elems, c.procs, c.keys = c.elems[:0], c.procs[:0], c.keys[:0]
	c.stats = Stats{Ops: len(h), OnUpdatedKeys: updates}
	c.found, c.invalid = c.found[:0], c.invalid[:0]
	c.conflicts, c.unsettled = c.conflicts[:0], c.unsettled[:0]
	c.compactNext = compactAt
	c.cycles = c.cycles[:0]
}

// sized returns a zeroed slice of n elements, which reuses the memory of s if it suffices.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}
