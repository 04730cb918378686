package coordinator

// HomeStats says what a home does and keeps. Counters are since this leadership began.
type HomeStats struct {
	// Answered counts keys that were answered with a write, Elsewhere those of which the home has none, Refused reads
	// that it could not answer, and Busy those for which there was no room to wait.
	Answered, Elsewhere, Refused, Busy uint64
	// Waited counts reads for update that waited until no write of their key was under way. Waiting is how many do now.
	Waited  uint64
	Waiting int
	// Shown counts how often the home heard that a client is shown a write of another data center.
	Shown uint64
	// Conflicts counts conditional puts that were refused.
	Conflicts uint64
	// Executed counts operations that were executed and have written something, Unexecuted those that were refused.
	Executed, Unexecuted uint64
	// Clients counts waits of clients for elements, by key, and Woken how often one was told that it is its turn.
	Clients int
	Woken   uint64
	// Keys and Bytes are what the home keeps.
	Keys, Bytes int
	// Leases says what it does about leases.
	Leases LeaseStats
	// AheadMs is how far what reads elsewhere must include is above the cut, in milliseconds: negative if it is below,
	// which it is unless a data center is silent, or the process has just started.
	AheadMs int64
}

// Home returns what the home does; false if the coordinator is none.
func (c *Coordinator) Home() (HomeStats, bool) {
	h := &c.home
	s := h.stats
	s.Waiting, s.Keys, s.Bytes = h.waits.Held(), len(h.keys), h.bytes
	s.Leases = c.Leases()
	s.Clients, s.Woken = h.waiters.clients(), h.waiters.woken
	s.AheadMs = h.from.WallMs() - c.known.MinSV().WallMs()
	return s, h.enabled
}
