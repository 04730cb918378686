package resp

import (
	"bytes"
	"math"

	"github.com/causalstore/causalstore/sidecar/operation"
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
	return c.update(key, 0, operation.Operation{Kind: operation.Add, Number: n}, func(r *operation.Outcome) error {
		sum, _ := parseInt(r.Next.Data)
		c.out.writeInteger(sum)
		return nil
	})
}

// INCRBYFLOAT key increment
func incrByFloat(c *connection, args [][]byte) error {
	o := operation.Operation{Kind: operation.AddFloat, Data: bytes.Clone(args[2])}
	return c.update(args[1], len(o.Data), o, func(r *operation.Outcome) error {
		c.out.writeBulk(r.Next.Data)
		return nil
	})
}
