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
	popped, err := c.popFirstScored(keyStrings(keys), greatest, count, false)
	switch {
	case err != nil:
		return err
	case len(popped.members) == 0:
		c.out.writeNullArray()
	default:
		c.writePopped(popped.key, popped.members)
	}
	return nil
}

// poppedMembers are members that were taken from a sorted set.
type poppedMembers struct {
	key     string
	members []scored
}

// popFirstScored takes members from the first of some sorted sets that exists. If the client waits, keys of another
// type are passed over.
func (c *connection) popFirstScored(keys []string, greatest bool, count int64, waits bool) (p poppedMembers,
	err error) {
	if limit := c.server.options.Limits.MaxMGetKeys; len(keys) > limit {
		return p, Errorf("ERR", "%d keys, more than the limit of %d; split it", len(keys), limit)
	}
	err = c.changeKeys(storageKeys(c.database, keys), func(ds []*draft) error {
		p = poppedMembers{}
		from := slices.IndexFunc(ds, func(d *draft) bool {
			return d.exists(c.nowMs()) && (!waits || d.isCollection() && d.change.Kind() == value.SortedSet)
		})
		if from < 0 {
			return nil
		}
		ch, err := ds[from].collection(value.SortedSet, c.nowMs())
		if err != nil {
			return err
		}
		p = poppedMembers{keys[from], pop(ch, greatest, count)}
		ds[from].written = true
		return nil
	})
	return p, err
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
func (c *connection) writePopped(key string, popped []scored) {
	c.out.writeArrayHeader(2)
	c.out.writeBulkString(key)
	c.out.writeArrayHeader(len(popped))
	for _, m := range popped {
		c.out.writeArrayHeader(2)
		c.out.writeBulkString(m.name)
		c.out.writeDouble(m.score)
		c.out.flushIfFull()
	}
}
