package causal

// Clock is the hybrid logical clock of one coordinator (PROTOCOL §2). No write waits for it, skew never breaks the order, and
// timestamps stay near real time.
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
