package causal

// Clock is the hybrid logical clock of one coordinator (papers: CausalSpartan). A write never waits for it, skew never
// breaks the order, and timestamps stay near real time.
type Clock struct {
	last HLC
	// wallMs is the greatest wall clock reading so far: a backward jump is absorbed, and a timestamp is measured against it.
	wallMs int64
}

// Next returns a timestamp above everything issued and above after, or false if after is more than boundMs ahead of the
// wall clock: then some clock is wrong and must not drag this one along.
func (c *Clock) Next(now Now, after HLC, boundMs int64) (HLC, bool) {
	c.wallMs = max(c.wallMs, now.WallMs)
	if after.WallMs() > c.wallMs+boundMs {
		return 0, false
	}
	c.last = max(c.last+1, after+1, HLCAt(c.wallMs))
	return c.last, true
}

// Peek returns the timestamp that the clock stands at, without issuing it: Next never returns it or a smaller one again.
func (c *Clock) Peek(now Now) HLC {
	c.wallMs = max(c.wallMs, now.WallMs)
	c.last = max(c.last, HLCAt(c.wallMs))
	return c.last
}

// Raise makes every later timestamp greater than h.
func (c *Clock) Raise(h HLC) { c.last = max(c.last, h) }
