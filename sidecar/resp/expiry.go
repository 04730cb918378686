package resp

import (
	"math"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// deadlineMs turns n units from now, or since the epoch, into milliseconds since the epoch, unless that overflows.
func (c *connection) deadlineMs(n, unitMs int64, absolute bool) (int64, bool) {
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

// until gives v a deadline, 0 for none. A value whose deadline has come is a deleted one.
func until(v causal.Value, expireAtMs, nowMs int64) causal.Value {
	if expireAtMs != 0 && expireAtMs <= nowMs {
		return tombstone
	}
	v.ExpireAtMs = expireAtMs
	return v
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
	o, err := parseExpireOptions(args[3:])
	if err != nil {
		return err
	}
	n, ok := parseInt(args[2])
	if !ok {
		return errNotInteger
	}
	at, ok := c.deadlineMs(n, unitMs, absolute)
	if !ok {
		return errExpireTime(command)
	}
	set := false
	err = c.modify(string(args[1]), func(v causal.Value, ok bool) (causal.Value, bool, error) {
		set = ok && o.allow(v.ExpireAtMs, at)
		if set && at <= c.nowMs() {
			return tombstone, true, nil
		}
		v.ExpireAtMs = at
		return v, set, nil
	})
	if err != nil {
		return err
	}
	c.out.integer(oneIf(set))
	return nil
}

// expireOptions are the conditions on the deadline that a key has.
type expireOptions struct{ nx, xx, gt, lt bool }

func parseExpireOptions(args [][]byte) (o expireOptions, err error) {
	for _, word := range args {
		switch {
		case equalFold(word, "nx"):
			o.nx = true
		case equalFold(word, "xx"):
			o.xx = true
		case equalFold(word, "gt"):
			o.gt = true
		case equalFold(word, "lt"):
			o.lt = true
		default:
			return o, Errorf("ERR", "Unsupported option %s", cString(word, len(word)))
		}
	}
	switch {
	case o.nx && (o.xx || o.gt || o.lt):
		return o, errNXIncompatible
	case o.gt && o.lt:
		return o, errGTIncompatible
	}
	return o, nil
}

// allow compares the deadline a key has, 0 for none, which counts as later than any, with the new one.
func (o expireOptions) allow(currentMs, nextMs int64) bool {
	has := currentMs != 0
	switch {
	case o.nx && has, o.xx && !has:
		return false
	case o.gt && (!has || nextMs <= currentMs):
		return false
	case o.lt && has && nextMs >= currentMs:
		return false
	}
	return true
}

// PERSIST key
func persist(c *connection, args [][]byte) error {
	removed := false
	err := c.modify(string(args[1]), func(v causal.Value, ok bool) (causal.Value, bool, error) {
		removed = ok && v.ExpireAtMs != 0
		v.ExpireAtMs = 0
		return v, removed, nil
	})
	if err != nil {
		return err
	}
	c.out.integer(oneIf(removed))
	return nil
}

// TTL key
func ttl(c *connection, args [][]byte) error {
	return c.deadlineOf(args, func(at, now int64) int64 { return seconds(at - now) })
}

// PTTL key
func pttl(c *connection, args [][]byte) error {
	return c.deadlineOf(args, func(at, now int64) int64 { return at - now })
}

// EXPIRETIME key
func expireTime(c *connection, args [][]byte) error {
	return c.deadlineOf(args, func(at, _ int64) int64 { return seconds(at) })
}

// PEXPIRETIME key
func pexpireTime(c *connection, args [][]byte) error {
	return c.deadlineOf(args, func(at, _ int64) int64 { return at })
}

// seconds rounds milliseconds, which may be as many as an int64 holds.
func seconds(ms int64) int64 { return int64((uint64(ms) + 500) / 1000) }

// deadlineOf replies -2 for a missing key, -1 for one without a deadline, else what f makes of it.
func (c *connection) deadlineOf(args [][]byte, f func(atMs, nowMs int64) int64) error {
	v, ok, err := c.read(string(args[1]))
	switch {
	case err != nil:
		return err
	case !ok:
		c.out.integer(-2)
	case v.ExpireAtMs == 0:
		c.out.integer(-1)
	default:
		c.out.integer(f(v.ExpireAtMs, min(c.nowMs(), v.ExpireAtMs)))
	}
	return nil
}
