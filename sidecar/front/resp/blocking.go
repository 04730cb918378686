package resp

import (
	"errors"
	"math"
	"time"

	"github.com/causalstore/causalstore/sidecar/front"
)

// Commands that wait until there is something in a key. They execute as those do that do not wait; if there is nothing,
// the client waits, and they execute again when it is its turn. So what is taken is taken by an ordinary command, in
// one step, and a client that is gone while it waits has taken nothing.

var (
	errTimeoutNumber   = genericError("timeout is not a float or out of range")
	errTimeoutNegative = genericError("timeout is negative")
	errUnblocked       = &Error{Code: "UNBLOCKED", Message: "client unblocked via CLIENT UNBLOCK"}
	errStopped         = &Error{Code: "UNBLOCKED", Message: "the sidecar stops; nothing was taken, try again"}
)

// blocking is a command that takes something from the first of some keys that has something.
type blocking struct {
	keys    []string // that the client waits for
	timeout time.Duration
	// try executes the command, and returns false if there is nothing. A key of another type is an error, unless the
	// client waits.
	try func(waits bool) (done bool, err error)
	// reply replies with what was taken, and nothing that nothing was.
	reply, nothing func()
}

// parseTimeout parses for how many seconds a client waits; 0 is for ever.
func parseTimeout(arg []byte) (time.Duration, error) {
	seconds, _, ok := parseNumber(string(arg))
	ms := math.Ceil(seconds * 1000)
	switch {
	case !ok || len(arg) == 0 || isSpace(arg[0]):
		return 0, errTimeoutNumber
	case ms < 0, ms >= math.MaxInt64:
		return 0, errTimeoutNegative // as Redis says of both
	case ms > float64(math.MaxInt64/time.Millisecond):
		return math.MaxInt64, nil
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// block executes a command that may wait.
func (c *connection) block(b blocking) error {
	done, err := b.try(false)
	if err == nil && !done && !c.executing {
		done, err = c.await(&b)
	}
	switch {
	case err != nil:
		return err
	case c.quitting:
	case done:
		b.reply()
	default:
		b.nothing()
	}
	return nil
}

// await waits until a command has taken something.
func (c *connection) await(b *blocking) (done bool, err error) {
	if c.out.flush(); c.out.err != nil { // the client may wait for replies to earlier commands
		return false, nil
	}
	c.flushCounters()
	unblocked := c.wait.begin()
	c.server.stats.blocked.Add(1)
	names := storageKeys(c.database, b.keys)
	waiting := c.session.Session.Await(names)
	defer func() {
		waiting.End()
		c.wait.end()
		c.server.stats.blocked.Add(-1)
	}()
	c.showState()
	var over <-chan time.Time
	if b.timeout > 0 {
		timer := time.NewTimer(b.timeout)
		defer timer.Stop()
		over = timer.C
	}
	for {
		turn, end := c.park(waiting.Turns(), over, unblocked)
		err = nil
		switch {
		case end != nil:
			return false, end.err
		case turn.Err != nil:
			return false, turn.Err
		case turn.Told || c.mayHave(names):
			if done, err = b.try(true); done || err != nil && !isTemporary(err) {
				return done, err
			}
		}
		waiting.Looked(err != nil)
	}
}

// mayHave reports whether one of some keys may exist, as reads of the client find it.
func (c *connection) mayHave(names []string) bool {
	values, err := c.session.Session.MGet(c.server.context, names)
	if err != nil {
		return false
	}
	for _, v := range values {
		if c.isLive(v) {
			return true
		}
	}
	return false
}

// isTemporary reports whether a client goes on waiting after an error: nothing was written.
func isTemporary(err error) bool {
	var e *front.Error
	return errors.As(err, &e) && (e.Code == front.Unavailable || e.Code == front.Conflict || e.Code == front.Busy)
}

// BLPOP key [key ...] timeout
func blpop(c *connection, args [][]byte) error { return c.blockOnLists(args, true) }

// BRPOP key [key ...] timeout
func brpop(c *connection, args [][]byte) error { return c.blockOnLists(args, false) }

func (c *connection) blockOnLists(args [][]byte, isFront bool) error {
	last := len(args) - 1
	timeout, err := parseTimeout(args[last])
	if err != nil {
		return err
	}
	b := c.blockingPop(keyStrings(args[1:last]), isFront, 1)
	b.timeout = timeout
	pop := b.popped
	b.reply = func() { c.writeTexts([]string{pop.key, pop.items[0]}) }
	return c.block(b.blocking)
}

// blockingItems is a command that takes elements of lists.
type blockingItems struct {
	blocking
	popped *poppedItems
}

func (c *connection) blockingPop(keys []string, isFront bool, count int64) blockingItems {
	p := &poppedItems{}
	return blockingItems{popped: p, blocking: blocking{keys: keys, nothing: c.out.writeNullArray,
		try: func(waits bool) (done bool, err error) {
			*p, err = c.popFirst(keys, isFront, count, waits)
			return len(p.items) > 0, err
		}}}
}

// BLMPOP timeout numkeys key [key ...] LEFT|RIGHT [COUNT count]
func blmpop(c *connection, args [][]byte) error {
	keys, isFront, count, err := parseListPop(args[2:])
	if err != nil {
		return err
	}
	b := c.blockingPop(keys, isFront, count)
	if b.timeout, err = parseTimeout(args[1]); err != nil {
		return err
	}
	b.reply = func() { c.writePoppedItems(b.popped) }
	return c.block(b.blocking)
}

// BLMOVE source destination LEFT|RIGHT LEFT|RIGHT timeout
func blmove(c *connection, args [][]byte) error {
	from, err := parseEnd(args[3])
	if err != nil {
		return err
	}
	to, err := parseEnd(args[4])
	if err != nil {
		return err
	}
	return c.blockOnMove(args[1], args[2], from, to, args[5])
}

// BRPOPLPUSH source destination timeout
func brpopLpush(c *connection, args [][]byte) error {
	return c.blockOnMove(args[1], args[2], false, true, args[3])
}

func (c *connection) blockOnMove(source, destination []byte, from, to bool, until []byte) error {
	timeout, err := parseTimeout(until)
	if err != nil {
		return err
	}
	m := itemMove{source: string(source), destination: string(destination), from: from, to: to}
	moved := ""
	nothing := c.out.writeNullArray
	if c.executing {
		nothing = c.out.writeNull
	}
	return c.block(blocking{keys: []string{m.source}, timeout: timeout, nothing: nothing,
		reply: func() { c.out.writeBulkString(moved) },
		try: func(waits bool) (done bool, err error) {
			moved, done, err = c.moveItem(m, waits)
			return done, err
		}})
}

// BZPOPMIN key [key ...] timeout
func bzpopMin(c *connection, args [][]byte) error { return c.blockOnSets(args, false) }

// BZPOPMAX key [key ...] timeout
func bzpopMax(c *connection, args [][]byte) error { return c.blockOnSets(args, true) }

func (c *connection) blockOnSets(args [][]byte, greatest bool) error {
	last := len(args) - 1
	timeout, err := parseTimeout(args[last])
	if err != nil {
		return err
	}
	b, p := c.blockingScored(keyStrings(args[1:last]), greatest, 1)
	b.timeout = timeout
	b.reply = func() {
		c.out.writeArrayHeader(3)
		c.out.writeBulkString(p.key)
		c.out.writeBulkString(p.members[0].name)
		c.out.writeDouble(p.members[0].score)
	}
	return c.block(b)
}

// blockingScored returns a command that takes members of sorted sets, and what it has taken.
func (c *connection) blockingScored(keys []string, greatest bool, count int64) (blocking, *poppedMembers) {
	p := &poppedMembers{}
	return blocking{keys: keys, nothing: c.out.writeNullArray, try: func(waits bool) (done bool, err error) {
		*p, err = c.popFirstScored(keys, greatest, count, waits)
		return len(p.members) > 0, err
	}}, p
}

// BZMPOP timeout numkeys key [key ...] MIN|MAX [COUNT count]
func bzmpop(c *connection, args [][]byte) error {
	keys, greatest, count, err := parseZMPop(args[2:])
	if err != nil {
		return err
	}
	b, p := c.blockingScored(keyStrings(keys), greatest, count)
	if b.timeout, err = parseTimeout(args[1]); err != nil {
		return err
	}
	b.reply = func() { c.writePopped(p.key, p.members) }
	return c.block(b)
}
