package history

import "github.com/causalstore/causalstore/sidecar/causal"

// promise is what reads of a level promise. Each promise has a file, level_*.go, which says of which levels it is. What
// the checker asks of every read, whatever its level, is that somebody has written what was read.
type promise interface {
	// addsToPast reports whether what is read is in the past of what its session does next.
	addsToPast() bool
	// check checks the reads of an operation, which has the past that clockOf returns for it without them.
	check(c *Checker, v int32, o *opInfo)
}

// promises has what was registered, by level; nil: nobody knows what such a read promises.
var promises [256]promise

// register says what levels promise. The files of promises call it before anything else runs.
func register(p promise, of ...causal.Level) {
	for _, l := range of {
		promises[l] = p
	}
}

// promiseOf returns what an operation promises.
func (c *Checker) promiseOf(op int32) promise { return promises[c.h[op].Level] }
