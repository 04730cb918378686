package resp

import (
	"bytes"
	"errors"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
)

// GET key
func get(c *connection, args [][]byte) error {
	v, err := c.read(args[1])
	if err != nil {
		return err
	}
	exists := c.isLive(v)
	c.countRead(exists)
	if exists {
		var ok bool
		if v, ok = asString(v); !ok {
			return errWrongType
		}
	}
	c.writeBulkOrNull(v, exists)
	return nil
}

func (c *connection) writeBulkOrNull(v causal.Value, ok bool) {
	if ok {
		c.out.writeBulk(v.Data)
	} else {
		c.out.writeNull()
	}
}

// STRLEN key
func strlen(c *connection, args [][]byte) error {
	v, ok, err := c.getString(string(args[1]))
	if err != nil {
		return err
	}
	if !ok {
		v.Data = nil
	}
	c.out.writeInteger(int64(len(v.Data)))
	return nil
}

// GETRANGE and SUBSTR key start end: positions are inclusive; negative ones count from the end.
func getRange(c *connection, args [][]byte) error {
	start, ok1 := parseInt(args[2])
	end, ok2 := parseInt(args[3])
	if !ok1 || !ok2 {
		return errNotInteger
	}
	v, ok, err := c.getString(string(args[1]))
	if err != nil {
		return err
	}
	if !ok {
		v.Data = nil
	}
	c.out.writeBulk(substring(v.Data, start, end))
	return nil
}

func substring(s []byte, start, end int64) []byte {
	n := int64(len(s))
	if start < 0 && end < 0 && start > end {
		return nil
	}
	if start < 0 {
		start = max(start+n, 0)
	}
	if end < 0 {
		end = max(end+n, 0)
	}
	end = min(end, n-1)
	if start > end {
		return nil
	}
	return s[start : end+1]
}

// SETRANGE key offset value: pads with zero bytes, and keeps the expire time.
func setRange(c *connection, args [][]byte) error {
	offset, ok := parseInt(args[2])
	switch {
	case !ok:
		return errNotInteger
	case offset < 0:
		return errOffset
	}
	o := operation.Operation{Kind: operation.Overlay, Number: offset, Data: bytes.Clone(args[3]),
		Limit: c.server.options.Limits.MaxValueBytes}
	return c.update(args[1], len(o.Data), o, func(r *operation.Outcome) error {
		if errors.Is(r.Err, operation.ErrTooLong) {
			return errEndsBeyond(uint64(offset)+uint64(len(o.Data)), o.Limit)
		}
		return c.replyLength(r)
	})
}

// replyLength replies with the length of the value that there is now.
func (c *connection) replyLength(r *operation.Outcome) error {
	v := &r.Old
	if r.Writes {
		v = &r.Next
	}
	c.out.writeInteger(int64(len(v.Data)))
	return nil
}

// MSET key value [key value ...]: a sequence of puts; one step in an exact session.
func mset(c *connection, args [][]byte) error {
	if len(args)%2 == 0 {
		return errArity("mset")
	}
	if err := c.putPairs(args[1:]); err != nil {
		return err
	}
	c.out.writeOK()
	return nil
}

// putPairs puts alternating keys and values. Other read-modify-write commands and transactions of this sidecar come
// before all of the puts, or after.
func (c *connection) putPairs(pairs [][]byte) error {
	keys := pairKeys(pairs)
	unlock := c.session.Lock(keys...)
	defer unlock()
	return c.putAll(keys, func(i int) causal.Value { return cloneValue(pairs[2*i+1]) })
}

func pairKeys(pairs [][]byte) []string {
	keys := make([]string, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		keys = append(keys, string(pairs[i]))
	}
	return keys
}

// MSETNX key value [key value ...]: puts all or, if one of the keys exists, none.
func msetNX(c *connection, args [][]byte) error {
	if len(args)%2 == 0 {
		return errArity("msetnx")
	}
	var stored bool
	err := c.retryConflicts(func() (err error) {
		stored, err = c.putNewPairs(args[1:])
		return err
	})
	if err != nil {
		return err
	}
	c.out.writeInteger(oneIf(stored))
	return nil
}

func (c *connection) putNewPairs(pairs [][]byte) (stored bool, err error) {
	keys := pairKeys(pairs)
	unlock := c.session.Lock(keys...)
	defer unlock()
	values, err := c.getToWrite(keys)
	if err != nil || slices.ContainsFunc(values, c.isLive) {
		return false, err
	}
	return true, c.putAll(keys, func(i int) causal.Value { return cloneValue(pairs[2*i+1]) })
}

// GETSET key value
func getSet(c *connection, args [][]byte) error {
	o := operation.Operation{Kind: operation.Set, Data: bytes.Clone(args[2]), ReturnsOld: true}
	return c.update(args[1], len(o.Data), o, c.replyOld)
}

// GETDEL key
func getDel(c *connection, args [][]byte) error {
	return c.update(args[1], 0, operation.Operation{Kind: operation.Delete, ReturnsOld: true}, c.replyOld)
}

// replyOld replies with the value that was there before.
func (c *connection) replyOld(r *operation.Outcome) error {
	c.writeBulkOrNull(r.Old, r.Exists)
	return nil
}

// replyWhetherWritten replies 1 if the command has written something, and 0 if not.
func (c *connection) replyWhetherWritten(r *operation.Outcome) error {
	c.out.writeInteger(oneIf(r.Writes))
	return nil
}

// APPEND key value: keeps the expire time.
func appendTo(c *connection, args [][]byte) error {
	o := operation.Operation{Kind: operation.Append, Data: bytes.Clone(args[2]),
		Limit: c.server.options.Limits.MaxValueBytes}
	return c.update(args[1], len(o.Data), o, func(r *operation.Outcome) error {
		if errors.Is(r.Err, operation.ErrTooLong) {
			return errTooLong("the resulting value", len(r.Old.Data)+len(o.Data), o.Limit)
		}
		return c.replyLength(r)
	})
}
