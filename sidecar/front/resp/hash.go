package resp

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/sidecar/value"
)

var (
	errHashNotInteger = genericError("hash value is not an integer")
	errHashNotFloat   = genericError("hash value is not a float")
)

// HSET key field value [field value ...]
func hset(c *connection, args [][]byte) error { return c.setFields("hset", args, false) }

// HMSET key field value [field value ...]: HSET that replies OK.
func hmset(c *connection, args [][]byte) error { return c.setFields("hmset", args, true) }

func (c *connection) setFields(command string, args [][]byte, repliesOK bool) error {
	if len(args)%2 != 0 {
		return errArity(command)
	}
	pairs := keyStrings(args[2:])
	created := 0
	return c.change(args[1], bytesOf(pairs), value.Hash, func(ch *value.Change) (bool, error) {
		created = 0
		for i := 0; i < len(pairs); i += 2 {
			created += int(oneIf(ch.Add(value.Hash, pairs[i], pairs[i+1])))
		}
		return true, nil
	}, func() error {
		if repliesOK {
			c.out.writeOK()
		} else {
			c.out.writeInteger(int64(created))
		}
		return nil
	})
}

// HSETNX key field value
func hsetNX(c *connection, args [][]byte) error {
	pair := keyStrings(args[2:])
	isNew := false
	return c.change(args[1], bytesOf(pair), value.Hash, func(ch *value.Change) (bool, error) {
		if _, has := ch.Get(pair[0]); has {
			isNew = false
			return false, nil
		}
		isNew = ch.Add(value.Hash, pair[0], pair[1])
		return true, nil
	}, func() error {
		c.out.writeInteger(oneIf(isNew))
		return nil
	})
}

// HDEL key field [field ...]
func hdel(c *connection, args [][]byte) error { return c.removeElements(args, value.Hash) }

// removeElements executes HDEL and SREM.
func (c *connection) removeElements(args [][]byte, kind value.Kind) error {
	names := keyStrings(args[2:])
	removed := 0
	return c.change(args[1], 0, kind, func(ch *value.Change) (bool, error) {
		removed = 0
		for _, name := range names {
			removed += int(oneIf(ch.Remove(name)))
		}
		return removed > 0, nil
	}, func() error {
		c.out.writeInteger(int64(removed))
		return nil
	})
}

// HGET key field
func hget(c *connection, args [][]byte) error {
	h, err := c.collectionAt(args[1], value.Hash)
	if err != nil {
		return err
	}
	c.writeField(&h, string(args[2]))
	return nil
}

func (c *connection) writeField(h *value.Collection, field string) {
	if text, ok := h.Get(field); ok {
		c.out.writeBulkString(text)
	} else {
		c.out.writeNull()
	}
}

// HMGET key field [field ...]
func hmget(c *connection, args [][]byte) error {
	h, err := c.collectionAt(args[1], value.Hash)
	if err != nil {
		return err
	}
	c.out.writeArrayHeader(len(args) - 2)
	for _, field := range args[2:] {
		c.writeField(&h, string(field))
		c.out.flushIfFull()
	}
	return nil
}

// HGETALL key
func hgetAll(c *connection, args [][]byte) error {
	h, err := c.collectionAt(args[1], value.Hash)
	if err != nil {
		return err
	}
	c.out.writeMapHeader(h.Len())
	for field, text := range h.All() {
		c.out.writeBulkString(field)
		c.out.writeBulkString(text)
		c.out.flushIfFull()
	}
	return nil
}

// HKEYS key
func hkeys(c *connection, args [][]byte) error {
	return c.writeFields(args, func(field, _ string) { c.out.writeBulkString(field) })
}

// HVALS key
func hvals(c *connection, args [][]byte) error {
	return c.writeFields(args, func(_, text string) { c.out.writeBulkString(text) })
}

func (c *connection) writeFields(args [][]byte, write func(field, text string)) error {
	h, err := c.collectionAt(args[1], value.Hash)
	if err != nil {
		return err
	}
	c.out.writeArrayHeader(h.Len())
	for field, text := range h.All() {
		write(field, text)
		c.out.flushIfFull()
	}
	return nil
}

// HLEN key
func hlen(c *connection, args [][]byte) error {
	h, err := c.collectionAt(args[1], value.Hash)
	if err != nil {
		return err
	}
	c.out.writeInteger(int64(h.Len()))
	return nil
}

// HEXISTS key field
func hexists(c *connection, args [][]byte) error {
	h, err := c.collectionAt(args[1], value.Hash)
	if err != nil {
		return err
	}
	_, ok := h.Get(string(args[2]))
	c.out.writeInteger(oneIf(ok))
	return nil
}

// HSTRLEN key field
func hstrlen(c *connection, args [][]byte) error {
	h, err := c.collectionAt(args[1], value.Hash)
	if err != nil {
		return err
	}
	text, _ := h.Get(string(args[2]))
	c.out.writeInteger(int64(len(text)))
	return nil
}

// HINCRBY key field increment
func hincrBy(c *connection, args [][]byte) error {
	n, ok := parseInt(args[3])
	if !ok {
		return errNotInteger
	}
	o := operation.Operation{Kind: operation.Add, Number: n}
	return c.addToField(args, o, errHashNotInteger, func(sum string) {
		n, _ := strconv.ParseInt(sum, 10, 64)
		c.out.writeInteger(n)
	})
}

// HINCRBYFLOAT key field increment
func hincrByFloat(c *connection, args [][]byte) error {
	o := operation.Operation{Kind: operation.AddFloat, Data: []byte(string(args[3]))}
	switch r := o.Apply(tombstone, 0); {
	case errors.Is(r.Err, operation.ErrNotFinite):
		return genericError("value is NaN or Infinity")
	case r.Err != nil:
		return errNotFloat
	}
	return c.addToField(args, o, errHashNotFloat, c.out.writeBulkString)
}

// addToField executes HINCRBY and HINCRBYFLOAT.
func (c *connection) addToField(args [][]byte, o operation.Operation, notNumber *Error, write func(sum string)) error {
	field, sum := string(args[2]), ""
	return c.change(args[1], len(field)+elementBytes+maxNumberBytes, value.Hash, func(ch *value.Change) (bool, error) {
		old := tombstone
		if text, has := ch.Get(field); has {
			old = causal.Value{Data: []byte(text)}
		}
		r := o.Apply(old, 0)
		if r.Err != nil {
			return false, fieldError(r.Err, notNumber)
		}
		sum = string(r.Next.Data)
		ch.Increment(value.Hash, field, sum, c.line())
		return true, nil
	}, func() error {
		write(sum)
		return nil
	})
}

// line returns whose increments the connection's go on from; 0: nobody's.
func (c *connection) line() value.Line { return value.Line(c.session.Line()) }

// maxNumberBytes is how long the text of a number is at most.
const maxNumberBytes = 5 << 10

func fieldError(err error, notNumber *Error) *Error {
	switch {
	case errors.Is(err, operation.ErrOverflow):
		return errOverflow
	case errors.Is(err, operation.ErrNotFinite):
		return errNaNOrInfinity
	}
	return notNumber
}

// HSCAN key cursor [MATCH pattern] [COUNT count]
func hscan(c *connection, args [][]byte) error {
	return c.scanElements(args, value.Hash, func(field, text string) {
		c.out.writeBulkString(field)
		c.out.writeBulkString(text)
	}, 2)
}

// HRANDFIELD key [count [WITHVALUES]]
func hrandField(c *connection, args [][]byte) error {
	withValues := len(args) == 4 && equalFold(args[3], "withvalues")
	if len(args) > 4 || len(args) == 4 && !withValues {
		return errSyntax
	}
	count, err := randomCount(args, withValues)
	if err != nil {
		return err
	}
	h, err := c.collectionAt(args[1], value.Hash)
	if err != nil {
		return err
	}
	picked := pickElements(&h, count)
	switch {
	case len(args) == 2:
		c.writeFirst(picked)
		return nil
	case !withValues:
		c.out.writeArrayHeader(len(picked))
	case c.out.proto == 3: // pairs
		c.out.writeArrayHeader(len(picked))
	default:
		c.out.writeArrayHeader(2 * len(picked))
	}
	for _, e := range picked {
		if withValues && c.out.proto == 3 {
			c.out.writeArrayHeader(2)
		}
		c.out.writeBulkString(e.name)
		if withValues {
			c.out.writeBulkString(e.payload)
		}
		c.out.flushIfFull()
	}
	return nil
}

// writeFirst writes the name of the first element that was picked, if there is one.
func (c *connection) writeFirst(picked []scannedElement) {
	if len(picked) == 0 {
		c.out.writeNull()
	} else {
		c.out.writeBulkString(picked[0].name)
	}
}

// maxRandom bounds a negative count of HRANDFIELD and SRANDMEMBER, which may repeat elements.
const maxRandom = 1_000_000

// randomCount parses the count of HRANDFIELD and SRANDMEMBER; without one it is 1.
func randomCount(args [][]byte, twice bool) (int, error) {
	if len(args) < 3 {
		return 1, nil
	}
	n, ok := parseInt(args[2])
	switch {
	case !ok:
		return 0, errNotInteger
	case n == math.MinInt64:
		return 0, Errorf("ERR", "value is out of range, value must between %d and %d", -math.MaxInt64, math.MaxInt64)
	case twice && (n < -math.MaxInt64/2 || n > math.MaxInt64/2):
		return 0, genericError("value is out of range")
	case n < -maxRandom:
		return 0, Errorf("ERR", "the count is below the limit of -%d; ask several times", maxRandom)
	}
	return int(n), nil
}

// pickElements picks different elements at random; of a negative number, each by itself.
func pickElements(h *value.Collection, count int) []scannedElement {
	all := make([]scannedElement, 0, h.Len())
	for name, payload := range h.All() {
		all = append(all, scannedElement{name: name, payload: payload})
	}
	if count < 0 {
		picked := make([]scannedElement, 0, -count)
		for range -count {
			if len(all) > 0 {
				picked = append(picked, all[rand.IntN(len(all))])
			}
		}
		return picked
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(count, len(all))]
}
