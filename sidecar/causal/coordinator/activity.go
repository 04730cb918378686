package coordinator

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// A deployment in which nobody writes publishes rarely (PROTOCOL COO-17). Each coordinator knows when a write
// was last accepted or acknowledged anywhere, because the vectors carry that. While that was lately, coordinators
// without writes publish often too: readers at a cut, or of several keys, wait for the vectors of all origins. The
// first write after a silence is published at once, and who hears of it publishes at once.
//
// Only the rate depends on this. What is published is true whenever it is, so a wrong belief makes readers wait, or
// costs messages.

// activity is when a write was last accepted or acknowledged anywhere, as far as is known, and when the vectors are
// published next because of that.
type activity struct {
	periods *Config
	at      causal.HLC
	until   int64 // monotonic: when the deployment counts as quiet again

	publishAt int64 // monotonic: when the vectors were last published
	progress  bool  // a write was acknowledged, or accepted after a silence, since then
}

const (
	// defaultQuietAfter and defaultQuietEvery are the defaults of Config.QuietAfter and Config.QuietEvery.
	defaultQuietAfter = 2 * time.Second
	defaultQuietEvery = 500 * time.Millisecond
)

// noteActivity takes the time of a write that was accepted or acknowledged here or elsewhere.
func (a *activity) noteActivity(now causal.Now, at causal.HLC) {
	if at > a.at {
		a.at, a.until = at, now.Mono+int64(a.periods.QuietAfter)
	}
}

// stayActive makes the deployment count as active for a while, as if somebody had written: parts that have just
// started, or have a new topology, wait for vectors.
func (a *activity) stayActive(now causal.Now) {
	a.until = now.Mono + int64(a.periods.QuietAfter)
}

// noteOwnActivity records that a write was accepted or acknowledged here, as newer than what is known of others: their
// clocks may be ahead.
func (a *activity) noteOwnActivity(now causal.Now) {
	a.noteActivity(now, max(a.at+1, causal.HLCAt(now.WallMs)))
}

// isQuiet reports whether no write was accepted or acknowledged anywhere lately.
func (a *activity) isQuiet(now causal.Now) bool { return now.Mono >= a.until }

// tellLeaderOfActivity gives the leader's part of this coordinator what decides about its rates.
func (c *Coordinator) tellLeaderOfActivity(now causal.Now) {
	c.leader.activeAt, c.leader.quiet = c.activity.at, c.isQuiet(now)
}

// publishInterval returns the time between two publications of the vectors.
func (a *activity) publishInterval(now causal.Now) time.Duration {
	switch {
	case a.progress:
		return a.periods.PublishEvery
	case a.isQuiet(now):
		return a.periods.QuietEvery
	}
	return a.periods.IdleEvery
}

// nextPublication returns when the vectors are to be published next.
func (a *activity) nextPublication(now causal.Now) int64 {
	return a.publishAt + int64(a.publishInterval(now))
}

// notePublished records that the vectors are published now. It reports whether there was progress.
func (a *activity) notePublished(now causal.Now) (progress bool) {
	progress = a.progress
	a.publishAt, a.progress = now.Mono, false
	return progress
}

// NextTick returns when Tick has something to do next, if no input comes before.
func (c *Coordinator) NextTick(now causal.Now) int64 {
	if len(c.writes) > 0 || c.home.leases.holdsBack() || c.past.active || c.cfg.Broken.Any() {
		return now.Mono
	}
	next := min(c.nextPublication(now), c.maps.NextPoll(), c.nextCeiling(now))
	next = min(next, c.locks.nextTick(now), c.homeChange.nextTick(), c.member.nextTick(now), c.exclusion.nextTick(),
		c.exclusion.foreign.nextTick(), c.formats.nextTick())
	if c.leader != nil {
		c.tellLeaderOfActivity(now)
		next = min(next, c.leader.nextTick(), c.adopter.nextAt)
	}
	return next
}

// nextCeiling returns when the durable ceiling has to be renewed.
func (c *Coordinator) nextCeiling(now causal.Now) int64 {
	if !c.log.isInUse() {
		return causal.Never
	}
	left := c.log.pending.Ceiling.WallMs() - max(now.WallMs+causal.CeilingMs/2, c.clock.Peek(now).WallMs())
	return now.Mono + max(left, 0)*int64(time.Millisecond)
}
