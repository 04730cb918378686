package resp

import (
	"math"
	"strconv"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// INCR key
func incr(c *connection, args [][]byte) error { return c.add(args[1], 1) }

// DECR key
func decr(c *connection, args [][]byte) error { return c.add(args[1], -1) }

// INCRBY key increment
func incrBy(c *connection, args [][]byte) error {
	n, ok := parseInt(args[2])
	if !ok {
		return errNotInteger
	}
	return c.add(args[1], n)
}

// DECRBY key decrement
func decrBy(c *connection, args [][]byte) error {
	n, ok := parseInt(args[2])
	switch {
	case !ok:
		return errNotInteger
	case n == math.MinInt64:
		return errDecrOverflow
	}
	return c.add(args[1], -n)
}

// add adds n to the integer at key; a missing key counts as 0. It keeps the expire time.
func (c *connection) add(key []byte, n int64) error {
	var sum int64
	return c.update(key, 0, func(v causal.Value, ok bool) (causal.Value, bool, error) {
		var old int64
		if ok {
			if old, ok = parseInt(v.Data); !ok {
				return v, false, errNotInteger
			}
		}
		if sum, ok = addInt(old, n); !ok {
			return v, false, errOverflow
		}
		return causal.Value{Data: strconv.AppendInt(nil, sum, 10), ExpireAtMs: v.ExpireAtMs}, true, nil
	}, func() { c.out.writeInteger(sum) })
}

// INCRBYFLOAT key increment
func incrByFloat(c *connection, args [][]byte) error {
	var text string
	b, ok2 := parseFloat(args[2])
	return c.update(args[1], 0, func(v causal.Value, ok bool) (causal.Value, bool, error) {
		old := v.Data
		if !ok {
			old = []byte("0")
		}
		a, ok1 := parseFloat(old)
		if !ok1 || !ok2 {
			return v, false, errNotFloat
		}
		sum, ok := addFloat(a, b)
		if !ok {
			return v, false, errNaNOrInfinity
		}
		text = formatFloat(sum)
		return causal.Value{Data: []byte(text), ExpireAtMs: v.ExpireAtMs}, true, nil
	}, func() { c.out.writeBulkString(text) })
}
