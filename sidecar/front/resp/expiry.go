package resp

import (
	"math"

	"github.com/causalstore/causalstore/sidecar/operation"
)

// expireTimeMs converts n units from now, or since the Unix epoch, to milliseconds since the epoch. It returns false on
// overflow.
func (c *connection) expireTimeMs(n, unitMs int64, absolute bool) (int64, bool) {
	if n > math.MaxInt64/unitMs || n < math.MinInt64/unitMs {
		return 0, false
	}
	n *= unitMs
	if absolute {
		return n, true
	}
	now := c.nowMs()
	if n > math.MaxInt64-now {
		return 0, false
	}
	return n + now, true
}

// EXPIRE key seconds [NX|XX] [GT|LT]
func expire(c *connection, args [][]byte) error {
	return c.expireGeneric("expire", args, 1000, false)
}

// PEXPIRE key milliseconds [NX|XX] [GT|LT]
func pexpire(c *connection, args [][]byte) error {
	return c.expireGeneric("pexpire", args, 1, false)
}

// EXPIREAT key seconds-since-epoch [NX|XX] [GT|LT]
func expireAt(c *connection, args [][]byte) error {
	return c.expireGeneric("expireat", args, 1000, true)
}

// PEXPIREAT key milliseconds-since-epoch [NX|XX] [GT|LT]
func pexpireAt(c *connection, args [][]byte) error {
	return c.expireGeneric("pexpireat", args, 1, true)
}

func (c *connection) expireGeneric(command string, args [][]byte, unitMs int64, absolute bool) error {
	conditions, err := parseExpireOptions(args[3:])
	if err != nil {
		return err
	}
	n, ok := parseInt(args[2])
	if !ok {
		return errNotInteger
	}
	at, ok := c.expireTimeMs(n, unitMs, absolute)
	if !ok {
		return errExpireTime(command)
	}
	return c.update(args[1], 0, operation.Operation{Kind: operation.Expire, Conditions: conditions, ExpireAtMs: at},
		c.replyWhetherWritten)
}

// parseExpireOptions parses the conditions of EXPIRE on the current expire time of a key.
func parseExpireOptions(args [][]byte) (o operation.Condition, err error) {
	for _, word := range args {
		switch {
		case equalFold(word, "nx"):
			o |= operation.IfPersistent
		case equalFold(word, "xx"):
			o |= operation.IfExpiring
		case equalFold(word, "gt"):
			o |= operation.IfLater
		case equalFold(word, "lt"):
			o |= operation.IfEarlier
		default:
			return o, Errorf("ERR", "Unsupported option %s", cString(word, len(word)))
		}
	}
	switch {
	case o.Has(operation.IfPersistent) && o != operation.IfPersistent:
		return o, errNXIncompatible
	case o.Has(operation.IfLater | operation.IfEarlier):
		return o, errGTIncompatible
	}
	return o, nil
}

// PERSIST key
func persist(c *connection, args [][]byte) error {
	return c.update(args[1], 0, operation.Operation{Kind: operation.Persist}, c.replyWhetherWritten)
}

// TTL key
func ttl(c *connection, args [][]byte) error {
	return c.replyExpireTime(args, func(at, now int64) int64 { return roundToSeconds(at - now) })
}

// PTTL key
func pttl(c *connection, args [][]byte) error {
	return c.replyExpireTime(args, func(at, now int64) int64 { return at - now })
}

// EXPIRETIME key
func expireTime(c *connection, args [][]byte) error {
	return c.replyExpireTime(args, func(at, _ int64) int64 { return roundToSeconds(at) })
}

// PEXPIRETIME key
func pexpireTime(c *connection, args [][]byte) error {
	return c.replyExpireTime(args, func(at, _ int64) int64 { return at })
}

// roundToSeconds does not overflow for any number of milliseconds.
func roundToSeconds(ms int64) int64 { return int64((uint64(ms) + 500) / 1000) }

// replyExpireTime replies -2 if the key is missing, -1 if it has no expire time, and the result of f otherwise.
func (c *connection) replyExpireTime(args [][]byte, f func(atMs, nowMs int64) int64) error {
	v, ok, err := c.getLive(string(args[1]))
	switch {
	case err != nil:
		return err
	case !ok:
		c.out.writeInteger(-2)
	case v.ExpireAtMs == 0:
		c.out.writeInteger(-1)
	default:
		c.out.writeInteger(f(v.ExpireAtMs, min(c.nowMs(), v.ExpireAtMs)))
	}
	return nil
}
