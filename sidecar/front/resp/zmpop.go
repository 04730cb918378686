package resp

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/value"
)

var errCountNotPositive = genericError("count should be greater than 0")

// ZMPOP numkeys key [key ...] MIN|MAX [COUNT count]
func zmpop(c *connection, args [][]byte) error {
	keys, greatest, count, err := parseZMPop(args[1:])
	if err != nil {
		return err
	}
	if limit := c.server.options.Limits.MaxMGetKeys; len(keys) > limit {
		return Errorf("ERR", "%d keys, more than the limit of %d; split it", len(keys), limit)
	}
	var popped []scored
	from := 0
	err = c.changeKeys(storageKeys(c.database, keyStrings(keys)), func(ds []*draft) error {
		popped = nil
		from = slices.IndexFunc(ds, func(d *draft) bool { return d.exists(c.nowMs()) })
		if from < 0 {
			return nil
		}
		ch, err := ds[from].collection(value.SortedSet, c.nowMs())
		if err != nil {
			return err
		}
		popped = pop(ch, greatest, count)
		ds[from].written = true
		return nil
	})
	switch {
	case err != nil:
		return err
	case len(popped) == 0:
		c.out.writeNullArray()
	default:
		c.writePopped(keys[from], popped)
	}
	return nil
}

func parseZMPop(args [][]byte) (keys [][]byte, greatest bool, count int64, err error) {
	n, ok := parseInt(args[0])
	switch {
	case !ok || n < 1:
		return nil, false, 0, errNumkeys
	case n >= int64(len(args))-1:
		return nil, false, 0, errSyntax
	}
	keys, args = args[1:1+n], args[1+n:]
	if greatest = equalFold(args[0], "max"); !greatest && !equalFold(args[0], "min") {
		return nil, false, 0, errSyntax
	}
	switch rest := args[1:]; {
	case len(rest) == 0:
		return keys, greatest, 1, nil
	case len(rest) < 2 || !equalFold(rest[0], "count"):
		return nil, false, 0, errSyntax
	default:
		count, ok = parseInt(rest[1])
		switch {
		case !ok || count < 1:
			return nil, false, 0, errCountNotPositive
		case len(rest) > 2:
			return nil, false, 0, errSyntax
		}
	}
	return keys, greatest, count, nil
}

// pop removes the members with the least scores, or the greatest ones.
func pop(ch *value.Change, greatest bool, count int64) []scored {
	popped := inOrder(ch.All())
	if greatest {
		slices.Reverse(popped)
	}
	popped = popped[:min(count, int64(len(popped)))]
	for _, m := range popped {
		ch.Remove(m.name)
	}
	return popped
}

// writePopped writes the key, and the members as pairs also in RESP2.
func (c *connection) writePopped(key []byte, popped []scored) {
	c.out.writeArrayHeader(2)
	c.out.writeBulk(key)
	c.out.writeArrayHeader(len(popped))
	for _, m := range popped {
		c.out.writeArrayHeader(2)
		c.out.writeBulkString(m.name)
		c.out.writeDouble(m.score)
		c.out.flushIfFull()
	}
}
