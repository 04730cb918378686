package session

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// level is what a causal.Level means in a session: what is read from where, what of that binds the session, and what a
// put carries. The other code of this package asks the level of a call, and compares none.
//
// A level has a file, which makes it known with register. Levels are values without state: what they need is in the
// Sidecar, the session and the call. What they are given is a value or in one of these: a pointer to anything else
// would cost each read an allocation.
type level interface {
	// asksHome reports whether the home of a key has a part in reading it.
	asksHome() bool
	// usesCuts reports whether reads are made at cuts, which then move.
	usesCuts() bool

	// sources returns the rings that may answer a read of a session, and whether copies may: those in the cache, and
	// near ones.
	sources(s *Sidecar, ss *session) (rings topology.RingSet, copies bool)
	// overlays reports whether own writes that are complete, and kept since they are above the cut, answer gets.
	overlays(s *Sidecar, now causal.Now) bool
	// get returns the request for the key of a get, without id and key, and the cut at which a near copy answers it.
	get(s *Sidecar, now causal.Now, c *call) (g causal.Get, near causal.HLC)
	// nearCut returns the cut at which a near copy answers a get by itself; 0: it is to be the newest version.
	nearCut(s *Sidecar, now causal.Now, ss *session, key []byte) causal.HLC
	// covers returns what is in the past of whatever a get finds that is sent now: such a version as the answer to a
	// get before it in a pipeline asks nothing of it.
	covers(s *Sidecar, now causal.Now) causal.Cut

	// startMGet begins to read the keys of an MGET.
	startMGet(s *Sidecar, now causal.Now, c *call)
	// finishRound decides whether what a round of an MGET has found is its answer, and goes on if it is not.
	finishRound(s *Sidecar, now causal.Now, c *call)
	// restartMGet begins again, elsewhere if possible: what was asked does not answer, or not for this session.
	restartMGet(s *Sidecar, now causal.Now, c *call)

	// restrictions returns how many restrictions reading a value would add; none, if it is stable.
	restrictions(s *Sidecar, ss *session, f foundValue) int
	// observe adds a value that was read to the past of the session. It returns false if the session must not see it:
	// it is thrown away, and the key read again.
	observe(s *Sidecar, now causal.Now, ss *session, f foundValue) bool

	// carries returns what a put carries: the HLC that its version is above, and what it depends on.
	carries(s *Sidecar, ss *session) (floor causal.HLC, deps []causal.Dep)
	// acknowledge takes that a put was accepted, with a version.
	acknowledge(s *Sidecar, c *call, v causal.Version)
}

// levels has what was registered, by causal.Level.
var levels [256]level

// register makes a level known. The files of levels call it before anything else runs.
func register(of causal.Level, l level) { levels[of] = l }

// levelOf returns the level of an operation.
func (s *Sidecar) levelOf(l causal.Level) level { return levels[l.Or(s.cfg.Level)] }
