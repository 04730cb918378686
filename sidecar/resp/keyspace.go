package resp

import (
	"bytes"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// nowMs is the wall clock in milliseconds.
func (c *connection) nowMs() int64 { return c.server.options.Clock().UnixMilli() }

// live reports whether v exists now. Like Redis, a value still exists in the millisecond of its deadline.
func (c *connection) live(v causal.Value) bool {
	return !v.Tombstone && (v.ExpireAtMs == 0 || c.nowMs() <= v.ExpireAtMs)
}

// read returns the value of key and whether it exists.
func (c *connection) read(key string) (causal.Value, bool, error) {
	v, err := c.session.Get(c.server.context, key)
	if err != nil {
		return causal.Value{}, false, err
	}
	return v, c.live(v), nil
}

// readAll returns the values of keys.
func (c *connection) readAll(keys []string) ([]causal.Value, error) {
	if len(keys) == 1 {
		v, err := c.session.Get(c.server.context, keys[0])
		return []causal.Value{v}, err
	}
	return c.session.MGet(c.server.context, keys)
}

// modify reads key, asks f what to put, if anything, and puts it, all under the lock of the key. The caller replies after
// it, because a client that does not read a reply must not hold a lock.
func (c *connection) modify(key string, f func(old causal.Value, exists bool) (next causal.Value, put bool, err error)) error {
	unlock := c.session.Lock(key)
	defer unlock()
	old, exists, err := c.read(key)
	if err != nil {
		return err
	}
	if !exists {
		old = causal.Value{Tombstone: true}
	}
	next, put, err := f(old, exists)
	if err != nil || !put {
		return err
	}
	return c.session.Put(c.server.context, key, next)
}

// putAll puts values in order. It goes on after an error, so that each put is tried, and returns the first one.
func (c *connection) putAll(keys []string, value func(i int) causal.Value) error {
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	if c.pipeliner == nil {
		for i, key := range keys {
			note(c.session.Put(c.server.context, key, value(i)))
		}
		return first
	}
	waits := make([]func() error, len(keys))
	for i, key := range keys {
		waits[i] = c.pipeliner.PutAsync(key, value(i))
	}
	for _, wait := range waits {
		note(wait())
	}
	return first
}

// tombstone is the value that deletes a key.
var tombstone = causal.Value{Tombstone: true}

// DEL and UNLINK key [key ...]
func del(c *connection, args [][]byte) error {
	n, err := c.remove(keyStrings(args[1:]))
	if err != nil {
		return err
	}
	c.out.integer(int64(n))
	return nil
}

// remove deletes those of keys that exist, and counts them.
func (c *connection) remove(keys []string) (int, error) {
	unlock := c.session.Lock(keys...)
	defer unlock()
	values, err := c.readAll(keys)
	if err != nil {
		return 0, err
	}
	existing := keys[:0]
	var seen map[string]bool
	if len(keys) > 1 {
		seen = make(map[string]bool, len(keys))
	}
	for i, key := range keys {
		if !c.live(values[i]) || seen[key] {
			continue
		}
		if seen != nil {
			seen[key] = true
		}
		existing = append(existing, key)
	}
	return len(existing), c.putAll(existing, func(int) causal.Value { return tombstone })
}

// EXISTS key [key ...]: a key given twice counts twice.
func exists(c *connection, args [][]byte) error {
	values, err := c.readAll(keyStrings(args[1:]))
	if err != nil {
		return err
	}
	n := 0
	for _, v := range values {
		if c.live(v) {
			n++
		}
	}
	c.out.integer(int64(n))
	return nil
}

// TYPE key: there are only strings.
func typeOf(c *connection, args [][]byte) error {
	_, ok, err := c.read(string(args[1]))
	switch {
	case err != nil:
		return err
	case ok:
		c.out.simple("string")
	default:
		c.out.simple("none")
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

// value makes a stored value of an argument, which lies in the read buffer.
func value(arg []byte) causal.Value { return causal.Value{Data: bytes.Clone(arg)} }
