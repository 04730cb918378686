package resp

import (
	"crypto/sha256"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// transaction is what MULTI and WATCH have set up on a connection. EXEC, DISCARD and RESET end it.
type transaction struct {
	open    bool // MULTI was accepted: commands are queued
	broken  bool // a command could not be queued: EXEC executes none
	queue   []queuedCommand
	bytes   int // of the queue
	watched []watchedKey
}

// queuedCommand is a command between MULTI and EXEC. It has its own copy of the arguments.
type queuedCommand struct {
	cmd  *command
	args [][]byte
}

// watchedKey is a key with the state that it had at its WATCH.
type watchedKey struct {
	stored  string
	exists  bool           // and has not expired
	version causal.Version // also of a tombstone, while there is one
	// content is the hash of a collection: an older write of another data center may become a part of it.
	content [sha256.Size]byte
	// expiredAt is the expire time of a value that has expired, or of one that a flush has deleted after that.
	expiredAt int64
	deleted   bool // there is a tombstone
}

// watchedAs returns the state of a key by its newest record.
func (c *connection) watchedAs(stored string, r causal.Record) watchedKey {
	w := watchedKey{stored: stored, exists: c.isLive(r.Value), version: r.Version, deleted: r.Value.Tombstone}
	switch {
	case !w.exists:
		w.expiredAt = r.Value.ExpireAtMs
	case r.Value.Merges():
		w.content = sha256.Sum256(r.Value.Data)
	}
	return w
}

// hasChanged reports whether a key that was w is now another one. A key without a value has changed if a later write is
// known, which was then a deletion; that its tombstone is gone by now, or is not gone yet in another ring, is no
// change. Nor is it, as with Redis, that a flush has deleted what had expired.
func (w watchedKey) hasChanged(now watchedKey) bool {
	switch {
	case w.exists != now.exists:
		return true
	case w.exists:
		return w.version != now.version || w.content != now.content
	case w.expiredAt != 0 && now.deleted && now.expiredAt == w.expiredAt:
		return false
	}
	return now.version.Written() && now.version.HLC > w.version.HLC
}

const (
	// maxWatchedKeys bounds the keys that a connection watches.
	maxWatchedKeys = 4096
	// queuedOverhead is the memory that a queued command and each of its arguments take beside the bytes of the
	// arguments.
	queuedOverhead = 48
)

var (
	errNestedMulti    = genericError("MULTI calls can not be nested")
	errWatchInMulti   = genericError("WATCH inside MULTI is not allowed")
	errExecOutside    = genericError("EXEC without MULTI")
	errDiscardOutside = genericError("DISCARD without MULTI")
	errExecAborted    = &Error{Code: "EXECABORT", Message: "Transaction discarded because of previous errors."}
	errTooManyWatched = Errorf("ERR", "a connection can watch at most %d keys; send EXEC, DISCARD or UNWATCH",
		maxWatchedKeys)
	errTransactionSlow = Errorf("UNAVAILABLE", "the transaction has taken more than %s; this command was not executed",
		maxTransactionTime)
	errTransactionReply = genericError(
		"the replies of the transaction take too much memory; this command was not executed: read large values " +
			"outside MULTI")
)

// enqueue queues a command for EXEC, and reports whether it failed.
func (c *connection) enqueue(cmd *command, args [][]byte) (failed bool) {
	t := &c.transaction
	if cmd.traits&outsideMulti != 0 {
		t.broken = true
		c.out.writeError(Errorf("ERR", "'%s' is not allowed inside MULTI: send it before MULTI or after EXEC",
			cmd.name))
		return true
	}
	size := queuedOverhead
	for _, arg := range args {
		size += queuedOverhead + len(arg)
	}
	if limit := c.server.options.Limits.MaxCommandBytes; t.bytes+size > limit {
		t.broken = true
		c.out.writeError(Errorf("ERR", "the transaction is longer than the limit of %d bytes; split it", limit))
		return true
	}
	if t.broken {
		c.out.writeSimple("QUEUED") // as Redis answers; EXEC will execute nothing, so nothing is kept
		return false
	}
	q := queuedCommand{cmd: cmd, args: make([][]byte, len(args))}
	text := make([]byte, 0, size-queuedOverhead*(1+len(args)))
	for i, arg := range args {
		from := len(text)
		text = append(text, arg...)
		q.args[i] = text[from:len(text):len(text)]
	}
	t.queue, t.bytes = append(t.queue, q), t.bytes+size
	c.account()
	c.out.writeSimple("QUEUED")
	return false
}

// MULTI
func multi(c *connection, _ [][]byte) error {
	if c.transaction.open {
		return errNestedMulti
	}
	c.transaction.open = true
	c.out.writeOK()
	return nil
}

// DISCARD
func discard(c *connection, _ [][]byte) error {
	if !c.transaction.open {
		return errDiscardOutside
	}
	c.transaction = transaction{}
	c.out.writeOK()
	return nil
}

// WATCH key [key ...]: EXEC executes nothing if one of the keys has changed.
func watch(c *connection, args [][]byte) error {
	t := &c.transaction
	if t.open {
		return errWatchInMulti
	}
	var stored []string
	for _, arg := range args[1:] {
		key := storageKey(c.database, string(arg))
		isWatched := func(w watchedKey) bool { return w.stored == key }
		if !slices.Contains(stored, key) && !slices.ContainsFunc(t.watched, isWatched) {
			stored = append(stored, key)
		}
		if len(t.watched)+len(stored) > maxWatchedKeys {
			return errTooManyWatched
		}
	}
	states, err := c.keyStates(stored)
	if err != nil {
		return err
	}
	t.watched = append(t.watched, states...)
	c.out.writeOK()
	return nil
}

// UNWATCH
func unwatch(c *connection, _ [][]byte) error {
	c.transaction.watched = nil
	c.out.writeOK()
	return nil
}

// keyStates reads the newest states of keys, which are given by the names under which they are stored.
func (c *connection) keyStates(stored []string) ([]watchedKey, error) {
	if len(stored) == 0 {
		return nil, nil
	}
	records, err := c.session.Newest(c.server.context, stored)
	if err != nil {
		return nil, err
	}
	states := make([]watchedKey, len(stored))
	for i, r := range records {
		states[i] = c.watchedAs(stored[i], r)
	}
	return states, nil
}
