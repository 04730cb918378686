package resp

import (
	"bytes"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
)

// nowMs returns the wall clock in milliseconds.
func (c *connection) nowMs() int64 { return c.server.options.Clock().UnixMilli() }

// isLive reports whether v exists now. As in Redis, a value still exists in the millisecond of its expire time.
func (c *connection) isLive(v causal.Value) bool {
	return !v.Tombstone && (v.ExpireAtMs == 0 || operation.Exists(v, c.nowMs())) // mostly without asking the clock
}

// getLive returns the value of key, and whether it exists and has not expired.
func (c *connection) getLive(key string) (causal.Value, bool, error) {
	v, err := c.session.Get(c.server.context, key)
	if err != nil {
		return causal.Value{}, false, err
	}
	exists := c.isLive(v)
	c.countRead(exists)
	return v, exists, nil
}

// getAll returns the values of keys, expired ones included.
func (c *connection) getAll(keys []string) ([]causal.Value, error) {
	if len(keys) == 1 {
		v, err := c.session.Get(c.server.context, keys[0])
		return []causal.Value{v}, err
	}
	return c.session.MGet(c.server.context, keys)
}

// getToWrite is getAll inside Lock or Isolate, for a command that may write each of the keys.
func (c *connection) getToWrite(keys []string) ([]causal.Value, error) {
	return c.getStoredToWrite(storageKeys(c.database, keys))
}

// getStoredToWrite is getToWrite for the names under which keys are stored.
func (c *connection) getStoredToWrite(names []string) ([]causal.Value, error) {
	if !c.session.IsExact() {
		if len(names) > 1 {
			return c.session.Session.MGet(c.server.context, names)
		}
		v, err := c.session.Session.Get(c.server.context, names[0])
		return []causal.Value{v}, err
	}
	records, err := c.session.Newest(c.server.context, names)
	if err != nil {
		return nil, err
	}
	values := make([]causal.Value, len(names))
	for i := range records {
		values[i] = records[i].Value
	}
	return values, nil
}

// tombstone is the value that deletes a key.
var tombstone = causal.Value{Tombstone: true}

// DEL and UNLINK key [key ...]: many keys are deleted in batches.
func del(c *connection, args [][]byte) error {
	total := 0
	if len(args) == 2 {
		return c.update(args[1], 0, operation.Operation{Kind: operation.Delete}, c.replyWhetherWritten)
	}
	c.awaitWrites()
	err := eachBatch(args[1:], func(keys []string) error {
		n, err := c.remove(keys)
		total += n
		return err
	})
	if err != nil {
		return err
	}
	c.out.writeInteger(int64(total))
	return nil
}

// remove deletes the keys that exist, and returns how many there were.
func (c *connection) remove(keys []string) (n int, err error) {
	if !c.session.IsExact() {
		return c.removeOnce(keys)
	}
	err = c.retryConflicts(func() (err error) {
		n, err = c.removeOnce(slices.Clone(keys))
		return err
	})
	return n, err
}

// removeOnce is remove without further tries.
func (c *connection) removeOnce(keys []string) (int, error) {
	unlock := c.session.Lock(keys...)
	defer unlock()
	values, err := c.getToWrite(keys)
	if err != nil {
		return 0, err
	}
	existing := make([]string, 0, len(keys))
	var seen map[string]bool
	if len(keys) > 1 {
		seen = make(map[string]bool, len(keys))
	}
	for i, key := range keys {
		if !c.isLive(values[i]) || seen[key] {
			continue
		}
		if seen != nil {
			seen[key] = true
		}
		existing = append(existing, key)
	}
	deleted := func(int) causal.Value { return tombstone }
	if c.session.IsExact() { // what does not exist is still so
		return len(existing), c.commitStored(storageKeys(c.database, existing), deleted, storageKeys(c.database, keys))
	}
	return len(existing), c.putAll(existing, deleted)
}

// EXISTS key [key ...]: a repeated key counts repeatedly. Many keys are read in batches.
func exists(c *connection, args [][]byte) error {
	n := 0
	err := eachBatch(args[1:], func(keys []string) error {
		values, err := c.getAll(keys)
		for _, v := range values {
			exists := c.isLive(v)
			if exists {
				n++
			}
			if err == nil {
				c.countRead(exists)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	c.out.writeInteger(int64(n))
	return nil
}

// TYPE key: all values are strings.
func typeOf(c *connection, args [][]byte) error {
	_, ok, err := c.getLive(string(args[1]))
	switch {
	case err != nil:
		return err
	case ok:
		c.out.writeSimple("string")
	default:
		c.out.writeSimple("none")
	}
	return nil
}

func keyStrings(args [][]byte) []string {
	keys := make([]string, len(args))
	for i, a := range args {
		keys[i] = string(a)
	}
	return keys
}

// cloneValue returns a value to store from an argument, which aliases the read buffer.
func cloneValue(arg []byte) causal.Value { return causal.Value{Data: bytes.Clone(arg)} }
