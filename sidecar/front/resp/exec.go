package resp

import "time"

// maxTransactionTime is how long EXEC begins to execute commands. It holds the locks of their keys meanwhile, and a
// command may wait for its time-out.
const maxTransactionTime = 10 * time.Second

// EXEC: executes the queued commands one after the other. No other command of this sidecar reads or writes their keys
// in between. A command that fails does not keep the others from being executed, as in Redis.
func execTransaction(c *connection, _ [][]byte) error {
	t := c.transaction
	if !t.open {
		return errExecOutside
	}
	c.transaction = transaction{}
	if t.broken {
		return errExecAborted
	}
	c.held.queue = t.bytes
	defer func() { c.held.queue = 0 }()
	keys := t.keys(c.database)
	if len(keys) == 0 {
		_ = c.executeQueue(t.queue) // each command has its error
		return nil
	}
	if err := c.ensureSession(); err != nil {
		return err
	}
	if c.session.IsExact() {
		return c.executeExactly(&t, keys)
	}
	return c.executeIsolated(&t, keys)
}

// abortExec ends the transaction of an EXEC that cannot be executed, as Redis does, and returns the error for it. The
// text has the code only if that is not ERR.
func (c *connection) abortExec(why *Error) *Error {
	c.transaction = transaction{}
	text := why.Message
	if why.Code != "ERR" {
		text = why.Error()
	}
	return Errorf("EXECABORT", "Transaction discarded because of: %s", text)
}

// executeIsolated executes a transaction while it holds the locks of its keys. Replies are sent afterwards, because a
// client that does not read its replies must not hold a lock.
func (c *connection) executeIsolated(t *transaction, keys []string) error {
	release := c.session.Isolate(keys...)
	c.executing, c.out.held = true, true
	defer func() {
		c.executing, c.out.held = false, false
		release()
	}()
	now, err := c.keyStates(watchedNames(t.watched))
	if err != nil {
		return err
	}
	for i, w := range t.watched {
		if w.hasChanged(now[i]) {
			c.out.writeNullArray()
			return nil
		}
	}
	_ = c.executeQueue(t.queue) // each command has its error
	return nil
}

func watchedNames(watched []watchedKey) []string {
	names := make([]string, len(watched))
	for i := range watched {
		names[i] = watched[i].stored
	}
	return names
}

// executeQueue executes commands and writes their replies as one array. It returns why the last of them were not
// executed, if so.
func (c *connection) executeQueue(queue []queuedCommand) (refused *Error) {
	c.out.writeArrayHeader(len(queue))
	until := time.Now().Add(maxTransactionTime)
	for _, q := range queue {
		if q.cmd.traits&pipelinedWrite == 0 {
			c.awaitWrites()
		}
		c.counters.commands++
		var why *Error
		switch {
		case time.Now().After(until):
			why = errTransactionSlow
		case len(c.out.buf) > c.server.options.Limits.MaxCommandBytes || c.client.IsEvicted():
			why = errTransactionReply
		}
		failed := why != nil
		if failed {
			c.awaitWrites()
			c.out.writeError(why)
			refused = why
		} else {
			failed = c.run(q.cmd, q.args)
		}
		if failed {
			c.counters.failures++
		}
		c.account()
	}
	c.awaitWrites()
	return refused
}

// keys returns the names under which the keys of the queued commands, and the watched keys, are stored.
func (t *transaction) keys(database int) []string {
	keys := watchedNames(t.watched)
	for _, q := range t.queue {
		if n, ok := selected(q); ok {
			database = n
		}
		q.cmd.keys.forEach(q.args, func(i int) bool {
			keys = append(keys, storageKey(q.databaseOf(i, database), string(q.args[i])))
			return true
		})
		if q.cmd.name == "move" {
			if to, err := parseDatabase(q.args[2]); err == nil {
				keys = append(keys, storageKey(to, string(q.args[1])))
			}
		}
	}
	return keys
}

// databaseOf returns the database of the key that is the i-th argument, while one is selected.
func (q queuedCommand) databaseOf(i, selected int) int {
	if q.cmd.name == "copy" && i == 2 {
		if o, err := parseCopyOptions(q.args[3:], selected); err == nil {
			return o.database
		}
	}
	return selected
}

// selected returns the database that a queued SELECT will choose.
func selected(q queuedCommand) (database int, ok bool) {
	if q.cmd.name != "select" {
		return 0, false
	}
	n, ok := parseInt(q.args[1])
	return int(n), ok && n >= 0 && n < databases
}
