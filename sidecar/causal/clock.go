package causal

// Clock is the hybrid logical clock of one coordinator (PROTOCOL COO-2). No write waits for it, skew never breaks the
// order, and timestamps stay near real time.
type Clock struct {
	last HLC
	// wallMs is the greatest wall clock reading so far, in milliseconds: backward jumps have no effect.
	wallMs int64
}

// Next returns a timestamp above everything issued and above after, or false if after is more than boundMs ahead of the
// wall clock: then some clock is wrong, and this one must not follow it.
func (c *Clock) Next(now Now, after HLC, boundMs int64) (HLC, bool) {
	c.wallMs = max(c.wallMs, now.WallMs)
	if after.WallMs() > c.wallMs+boundMs {
		return 0, false
	}
	c.last = max(c.last+1, after+1, HLCAt(c.wallMs))
	return c.last, true
}

// Peek returns the current timestamp without issuing it: Next will return neither it nor a smaller one.
func (c *Clock) Peek(now Now) HLC {
	c.wallMs = max(c.wallMs, now.WallMs)
	c.last = max(c.last, HLCAt(c.wallMs))
	return c.last
}

// Raise makes every later timestamp greater than h.
func (c *Clock) Raise(h HLC) { c.last = max(c.last, h) }

// MaxAheadMs is how far ahead of its own clock a part believes timestamps of others to be, in milliseconds. A
// coordinator issues timestamps of up to 10 s ahead of its wall clock (PROTOCOL COO-5); the rest is for clocks that
// differ. What is further ahead is refused or cut down, and not for ever: a clock goes on, and what is refused is sent
// again.
const MaxAheadMs = 60_000

// CeilingMs is how far a coordinator's durable ceiling is set ahead of its clock, in milliseconds, and so how far ahead
// of the wall clock a coordinator may start (PROTOCOL COO-11). An idle coordinator writes one checkpoint per half of
// it.
const CeilingMs = 2000

// MaxSessionAheadMs is how far the floor and the dependencies of a put may be ahead of the clock of the coordinator and
// of what other coordinators have published, in milliseconds: so much, a session may know earlier than the coordinator.
// It may have written through one that has restarted, which starts at its ceiling; the rest is for clocks that differ.
// A sidecar can claim anything, and what it claims becomes the clock of everybody. What a token names has the same
// bound, at the sidecar that resumes it.
const MaxSessionAheadMs = CeilingMs + 500

// TimeLimit says which timestamps of others a part believes. So no message, wrong or forged, can put anything of the
// part out of the reach of all later timestamps. The zero value is ready to use.
//
// A wall clock that jumps back does not move the limit back: a part that runs refuses nothing because of that.
type TimeLimit struct {
	wallMs, mono int64
}

// At returns the greatest timestamp to believe now.
func (l *TimeLimit) At(now Now) HLC {
	l.wallMs = max(now.WallMs, l.wallMs+(now.Mono-l.mono)/1e6)
	l.mono = now.Mono
	return HLCAt(l.wallMs + MaxAheadMs)
}

// ClaimsAt returns the greatest timestamp to believe now of a session that nobody vouches for.
func (l *TimeLimit) ClaimsAt(now Now) HLC {
	l.At(now)
	return HLCAt(l.wallMs + MaxSessionAheadMs)
}

// IncarnationBits and CacheEpochBits are how many bits follow the wall clock, in milliseconds, in the incarnation of a
// shard that has lost its data, and in the epoch of a stream of a cache.
const (
	IncarnationBits = 10
	CacheEpochBits  = 16
)

// maxNumberAheadMs is how far the clock in such a number may be ahead: far more than any that works.
const maxNumberAheadMs = 24 * 60 * 60 * 1000

// IsPlausible reports whether a number that begins with a wall clock, or counts from 0, and that a peer claims can have
// been reached by now. Parts go on from such numbers and keep some of them: one from the end of all numbers would put a
// shard, a coordinator or a stream out of use for good.
func IsPlausible(n uint64, bits uint, limit HLC) bool {
	return n>>bits <= uint64(limit.WallMs())+maxNumberAheadMs
}

// NoLimit is the limit for timestamps that a part has issued or stored itself.
const NoLimit = ^HLC(0)
