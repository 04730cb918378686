package resp

import (
	"bytes"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/sidecar/value"
)

// nowMs returns the wall clock in milliseconds.
func (c *connection) nowMs() int64 { return c.server.options.Clock().UnixMilli() }

// isLive reports whether v exists now. As in Redis, a value still exists in the millisecond of its expire time.
func (c *connection) isLive(v causal.Value) bool {
	return value.Exists(v) && (v.ExpireAtMs == 0 || operation.Exists(v, c.nowMs())) // mostly without asking the clock
}

// getString is getLive of a key that is a string, if it exists.
func (c *connection) getString(key string) (v causal.Value, exists bool, err error) {
	v, exists, err = c.getLive(key)
	if !exists {
		return v, false, err
	}
	v, ok := asString(v)
	if !ok {
		return causal.Value{}, false, errWrongType
	}
	return v, true, nil
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
	records, err := c.recordsToWrite(storageKeys(c.database, keys))
	if err != nil {
		return nil, err
	}
	values := make([]causal.Value, len(records))
	for i := range records {
		values[i] = records[i].Value
	}
	return values, nil
}

// recordsToWrite is getToWrite for the names under which keys are stored, with the versions of the values.
func (c *connection) recordsToWrite(names []string) ([]causal.Record, error) {
	if len(names) == 1 && !c.session.IsExact() {
		r, err := c.session.Session.GetRecord(c.server.context, names[0])
		return []causal.Record{r}, err
	}
	return c.session.Newest(c.server.context, names)
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
	err = c.changeKeys(storageKeys(c.database, keys), func(ds []*draft) error {
		n = 0
		for _, d := range ds {
			if d.exists(c.nowMs()) {
				d.set(tombstone)
				n++
			}
		}
		return nil
	})
	return n, err
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

// TYPE key
func typeOf(c *connection, args [][]byte) error {
	v, ok, err := c.getLive(string(args[1]))
	switch {
	case err != nil:
		return err
	case ok:
		c.out.writeSimple(nameOfType(v))
	default:
		c.out.writeSimple("none")
	}
	return nil
}

// nameOfType returns how Redis names the type of a value that exists.
func nameOfType(v causal.Value) string {
	switch value.KindOf(v) {
	case value.Hash:
		return "hash"
	case value.Set:
		return "set"
	case value.SortedSet:
		return "zset"
	case value.List:
		return "list"
	case value.Stream:
		return "stream"
	}
	return "string"
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
