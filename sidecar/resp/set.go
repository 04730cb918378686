package resp

import "github.com/causalstore/causalstore/sidecar/causal"

// setOptions are the options of SET and GETEX.
type setOptions struct {
	nx, xx, get, keepTTL, persist bool
	expire                        deadline
}

// deadline is a moment as a client writes it.
type deadline struct {
	text     []byte // nil: none
	unitMs   int64
	absolute bool
}

// blind reports whether the command needs nothing of what is stored.
func (o *setOptions) blind() bool { return !o.nx && !o.xx && !o.get && !o.keepTTL }

// parseSetOptions reads what may stand behind SET key value, or with onRead behind GETEX key. Which options exclude each
// other, and that a unit may be repeated, is as in Redis.
func parseSetOptions(args [][]byte, onRead bool) (o setOptions, err error) {
	for i := 0; i < len(args); i++ {
		word := args[i]
		unitMs, absolute := timeUnit(word)
		switch {
		case unitMs > 0 && i+1 < len(args) && !o.keepTTL && !o.persist &&
			(o.expire.text == nil || o.expire.unitMs == unitMs && o.expire.absolute == absolute):
			i++
			o.expire = deadline{text: args[i], unitMs: unitMs, absolute: absolute}
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

// timeUnit returns the unit of EX, PX, EXAT and PXAT, 0 for any other word.
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

// expiry turns the text of a deadline into milliseconds since the epoch, 0 if there is none. It must lie after the epoch.
func (c *connection) expiry(command string, d deadline) (int64, error) {
	if d.text == nil {
		return 0, nil
	}
	n, ok := parseInt(d.text)
	if !ok {
		return 0, errNotInteger
	}
	at, ok := c.deadlineMs(n, d.unitMs, d.absolute)
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
	at, err := c.expiry("set", o.expire)
	if err != nil {
		return err
	}
	if !o.blind() {
		return setIf(c, args, o, at)
	}
	v := value(args[2])
	v.ExpireAtMs = at
	return c.putBlind(string(args[1]), v)
}

// setIf is SET where it depends on what is stored.
func setIf(c *connection, args [][]byte, o setOptions, expireAtMs int64) error {
	c.settle()
	var old causal.Value
	var had, stored bool
	err := c.modify(string(args[1]), func(v causal.Value, ok bool) (causal.Value, bool, error) {
		old, had = v, ok
		stored = !(o.nx && ok) && !(o.xx && !ok)
		if !stored {
			return v, false, nil
		}
		next := value(args[2])
		next.ExpireAtMs = expireAtMs
		if o.keepTTL {
			next.ExpireAtMs = v.ExpireAtMs
		}
		return next, true, nil
	})
	switch {
	case err != nil:
		return err
	case o.get:
		c.bulkOrNull(old, had)
	case stored:
		c.out.ok()
	default:
		c.out.null()
	}
	return nil
}

// SETEX key seconds value
func setEx(c *connection, args [][]byte) error {
	return c.setUntil("setex", args, deadline{text: args[2], unitMs: 1000})
}

// PSETEX key milliseconds value
func psetEx(c *connection, args [][]byte) error {
	return c.setUntil("psetex", args, deadline{text: args[2], unitMs: 1})
}

func (c *connection) setUntil(command string, args [][]byte, d deadline) error {
	at, err := c.expiry(command, d)
	if err != nil {
		return err
	}
	v := value(args[3])
	v.ExpireAtMs = at
	return c.putBlind(string(args[1]), v)
}

// SETNX key value
func setNX(c *connection, args [][]byte) error {
	stored := false
	err := c.modify(string(args[1]), func(v causal.Value, ok bool) (causal.Value, bool, error) {
		stored = !ok
		if ok {
			return v, false, nil
		}
		return value(args[2]), true, nil
	})
	if err != nil {
		return err
	}
	c.out.integer(oneIf(stored))
	return nil
}

// GETEX key [EX|PX|EXAT|PXAT time | PERSIST]
func getEx(c *connection, args [][]byte) error {
	o, err := parseSetOptions(args[2:], true)
	if err != nil {
		return err
	}
	if o.expire.text == nil && !o.persist {
		return get(c, args)
	}
	var old causal.Value
	var had bool
	err = c.modify(string(args[1]), func(v causal.Value, ok bool) (causal.Value, bool, error) {
		old, had = v, ok
		if !ok {
			return v, false, nil
		}
		at, err := c.expiry("getex", o.expire)
		return until(v, at, c.nowMs()), at != v.ExpireAtMs, err
	})
	if err != nil {
		return err
	}
	c.bulkOrNull(old, had)
	return nil
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
