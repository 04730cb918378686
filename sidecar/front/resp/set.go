package resp

import (
	"bytes"

	"github.com/causalstore/causalstore/sidecar/operation"
)

// setOptions are the options of SET and GETEX.
type setOptions struct {
	nx, xx, get, keepTTL, persist bool
	expire                        expireArg
}

// expireArg is an expire time as the client wrote it.
type expireArg struct {
	text     []byte // nil if there is none
	unitMs   int64
	absolute bool
}

// isBlind reports whether the command does not depend on the stored value.
func (o *setOptions) isBlind() bool { return !o.nx && !o.xx && !o.get && !o.keepTTL }

// parseSetOptions parses the options after SET key value or, with onRead, after GETEX key. As in Redis, some options
// exclude each other, and EX, PX, EXAT or PXAT may be repeated.
func parseSetOptions(args [][]byte, onRead bool) (o setOptions, err error) {
	for i := 0; i < len(args); i++ {
		word := args[i]
		unitMs, absolute := timeUnit(word)
		switch {
		case unitMs > 0 && i+1 < len(args) && !o.keepTTL && !o.persist &&
			(o.expire.text == nil || o.expire.unitMs == unitMs && o.expire.absolute == absolute):
			i++
			o.expire = expireArg{text: args[i], unitMs: unitMs, absolute: absolute}
		case onRead && equalFold(word, "persist") && o.expire.text == nil:
			o.persist = true
		case !onRead && equalFold(word, "nx") && !o.xx:
			o.nx = true
		case !onRead && equalFold(word, "xx") && !o.nx:
			o.xx = true
		case !onRead && equalFold(word, "get"):
			o.get = true
		case !onRead && equalFold(word, "keepttl") && o.expire.text == nil:
			o.keepTTL = true
		default:
			return o, errSyntax
		}
	}
	return o, nil
}

// timeUnit returns the unit of EX, PX, EXAT or PXAT, and 0 for any other word.
func timeUnit(word []byte) (unitMs int64, absolute bool) {
	switch {
	case equalFold(word, "ex"):
		return 1000, false
	case equalFold(word, "px"):
		return 1, false
	case equalFold(word, "exat"):
		return 1000, true
	case equalFold(word, "pxat"):
		return 1, true
	}
	return 0, false
}

// parseExpireArg returns the expire time in milliseconds since the epoch, or 0 if there is none. The argument must be
// positive.
func (c *connection) parseExpireArg(command string, arg expireArg) (int64, error) {
	if arg.text == nil {
		return 0, nil
	}
	n, ok := parseInt(arg.text)
	if !ok {
		return 0, errNotInteger
	}
	at, ok := c.expireTimeMs(n, arg.unitMs, arg.absolute)
	if !ok || n <= 0 {
		return 0, errExpireTime(command)
	}
	return at, nil
}

// SET key value [NX|XX] [GET] [EX|PX|EXAT|PXAT time | KEEPTTL]
func set(c *connection, args [][]byte) error {
	o, err := parseSetOptions(args[3:], false)
	if err != nil {
		return err
	}
	at, err := c.parseExpireArg("set", o.expire)
	if err != nil {
		return err
	}
	if !o.isBlind() {
		return setIf(c, args, o, at)
	}
	v := cloneValue(args[2])
	v.ExpireAtMs = at
	return c.putBlind(string(args[1]), v)
}

// setIf is SET with options that depend on the stored value.
func setIf(c *connection, args [][]byte, o setOptions, expireAtMs int64) error {
	op := operation.Operation{Kind: operation.Set, Data: bytes.Clone(args[2]), ExpireAtMs: expireAtMs,
		KeepExpireTime: o.keepTTL, ReturnsOld: o.get}
	if o.nx {
		op.Conditions |= operation.IfMissing
	}
	if o.xx {
		op.Conditions |= operation.IfExists
	}
	return c.update(args[1], len(op.Data), op, func(r *operation.Outcome) error {
		switch {
		case o.get:
			return c.replyOld(r)
		case r.Writes:
			c.out.writeOK()
		default:
			c.out.writeNull()
		}
		return nil
	})
}

// SETEX key seconds value
func setEx(c *connection, args [][]byte) error {
	return c.setWithExpireTime("setex", args, expireArg{text: args[2], unitMs: 1000})
}

// PSETEX key milliseconds value
func psetEx(c *connection, args [][]byte) error {
	return c.setWithExpireTime("psetex", args, expireArg{text: args[2], unitMs: 1})
}

func (c *connection) setWithExpireTime(command string, args [][]byte, arg expireArg) error {
	at, err := c.parseExpireArg(command, arg)
	if err != nil {
		return err
	}
	v := cloneValue(args[3])
	v.ExpireAtMs = at
	return c.putBlind(string(args[1]), v)
}

// SETNX key value
func setNX(c *connection, args [][]byte) error {
	o := operation.Operation{Kind: operation.Set, Conditions: operation.IfMissing, Data: bytes.Clone(args[2])}
	return c.update(args[1], len(o.Data), o, c.replyWhetherWritten)
}

// GETEX key [EX|PX|EXAT|PXAT time | PERSIST]
func getEx(c *connection, args [][]byte) error {
	o, err := parseSetOptions(args[2:], true)
	if err != nil {
		return err
	}
	if o.expire.text == nil && !o.persist {
		c.awaitWrites()
		return get(c, args)
	}
	op := operation.Operation{Kind: operation.Persist, ReturnsOld: true}
	at, err := c.parseExpireArg("getex", o.expire)
	switch {
	case err != nil:
		op.Kind = operation.Read
	case at != 0:
		op.Kind, op.Conditions, op.ExpireAtMs = operation.Expire, operation.IfDifferent, at
	}
	return c.update(args[1], 0, op, func(r *operation.Outcome) error {
		if r.Exists && err != nil {
			return err // as in Redis, only if there is a value
		}
		return c.replyOld(r)
	})
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
