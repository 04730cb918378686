package resp

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/front"
)

// maxBatchKeys is how many keys EXISTS, DEL and UNLINK read, and delete, at a time, and maxBatchBytes bounds their
// names, but for a single longer one: those of a batch are read with one message.
const (
	maxBatchKeys  = 1024
	maxBatchBytes = 4 << 20
)

// eachBatch calls f with batches of keys, until it returns an error.
func eachBatch(args [][]byte, f func(keys []string) error) error {
	for len(args) > 0 {
		n, bytes := 0, 0
		for n < min(len(args), maxBatchKeys) && (n == 0 || bytes+len(args[n]) <= maxBatchBytes) {
			bytes += len(args[n])
			n++
		}
		if err := f(keyStrings(args[:n])); err != nil {
			return err
		}
		args = args[n:]
	}
	return nil
}

// distinctKeys returns every key once, and for each argument the position of its key.
func distinctKeys(args [][]byte) (keys []string, at []int) {
	keys, at = make([]string, 0, len(args)), make([]int, len(args))
	seen := make(map[string]int, len(args))
	for i, arg := range args {
		p, ok := seen[string(arg)]
		if !ok {
			p = len(keys)
			keys = append(keys, string(arg))
			seen[keys[p]] = p
		}
		at[i] = p
	}
	return keys, at
}

// MGET key [key ...]
func mget(c *connection, args [][]byte) error {
	keys, at := distinctKeys(args[1:])
	if limit := c.server.options.Limits.MaxMGetKeys; len(keys) > limit {
		return Errorf("ERR", "MGET of %d different keys, more than the limit of %d; split it", len(keys), limit)
	}
	values, err := c.session.MGet(c.server.context, keys)
	if err != nil {
		return err
	}
	bytes := 0
	for _, v := range values {
		bytes += v.Size()
	}
	c.hold(bytes)
	defer c.hold(0)
	c.out.writeArrayHeader(len(at))
	for _, p := range at {
		exists := c.isLive(values[p])
		c.countRead(exists)
		v, isString := asString(values[p])
		c.writeBulkOrNull(v, exists && isString) // a collection is none, as in Redis
	}
	return nil
}

// putAll puts values in order, a bounded number at a time. It continues after an error, so that each put is tried, and
// returns the first error.
func (c *connection) putAll(keys []string, value func(i int) causal.Value) error {
	return c.putStored(storageKeys(c.database, keys), value)
}

// putStored is putAll for the names under which keys are stored.
func (c *connection) putStored(names []string, value func(i int) causal.Value) error {
	if c.session.IsExact() {
		return c.commitStored(names, value, names)
	}
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	type pendingPut struct {
		wait  func() error
		bytes int
	}
	var pending []pendingPut
	awaitOldest := func() {
		note(pending[0].wait())
		c.pending.bytes -= pending[0].bytes
		pending[0] = pendingPut{}
		pending = pending[1:]
	}
	for i, name := range names {
		v := value(i)
		p := pendingPut{bytes: len(name) + v.Size()}
		for len(pending) >= maxPendingPuts || len(pending) > 0 &&
			c.pending.bytes+p.bytes > c.server.options.Limits.MaxPipelineBytes {
			awaitOldest()
		}
		p.wait = c.session.PutAsync(name, v)
		c.pending.bytes += p.bytes
		c.account()
		pending = append(pending, p)
	}
	for len(pending) > 0 {
		awaitOldest()
	}
	return first
}

// commitStored puts values under names, all or none, on condition that what was read of some names still holds. While
// EXEC runs, they wait for its end.
func (c *connection) commitStored(names []string, value func(i int) causal.Value, read []string) error {
	if len(names) == 0 {
		return nil
	}
	puts := make([]front.Write, len(names))
	for i, name := range names {
		puts[i] = front.Write{Key: name, Value: value(i)}
	}
	return c.session.Session.Commit(c.server.context, puts, read)
}
