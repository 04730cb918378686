package resp

import (
	"github.com/causalstore/causalstore/sidecar/value"
)

// Commands of several lists.

var errCountOf = genericError("count should be greater than 0")

// parseEnd parses LEFT or RIGHT.
func parseEnd(arg []byte) (isFront bool, err error) {
	if isFront = equalFold(arg, "left"); !isFront && !equalFold(arg, "right") {
		return false, errSyntax
	}
	return isFront, nil
}

// LMOVE source destination LEFT|RIGHT LEFT|RIGHT
func lmove(c *connection, args [][]byte) error {
	from, err := parseEnd(args[3])
	if err != nil {
		return err
	}
	to, err := parseEnd(args[4])
	if err != nil {
		return err
	}
	return c.moveItem(string(args[1]), string(args[2]), from, to)
}

// RPOPLPUSH source destination
func rpopLpush(c *connection, args [][]byte) error {
	return c.moveItem(string(args[1]), string(args[2]), false, true)
}

// moveItem moves an element from an end of a list to one of another list, or of the same, which keeps its expire time.
func (c *connection) moveItem(source, destination string, from, to bool) error {
	moved, isMoved := "", false
	err := c.changeKeys(storageKeys(c.database, []string{destination, source}), func(ds []*draft) error {
		isMoved = false
		list, err := ds[1].collection(value.List, c.nowMs())
		if err != nil || list.Len() == 0 {
			return err
		}
		target, err := ds[0].collection(value.List, c.nowMs())
		if err != nil {
			return err
		}
		i := list.Len() - 1
		if from {
			i = 0
		}
		moved, isMoved = list.Items()[i].Text, true
		if err := c.checkSize(target.Size() + len(moved) + elementBytes); err != nil {
			return err
		}
		if target.Push(to, moved); target == list && to {
			i++
		}
		list.RemoveItems(i, i+1)
		ds[0].written, ds[1].written = true, true
		return nil
	})
	switch {
	case err != nil:
		return err
	case isMoved:
		c.out.writeBulkString(moved)
	default:
		c.out.writeNull()
	}
	return nil
}

// LMPOP numkeys key [key ...] LEFT|RIGHT [COUNT count]
func lmpop(c *connection, args [][]byte) error {
	n, ok := parseInt(args[1])
	switch {
	case !ok || n <= 0:
		return errNumkeys
	case n > int64(len(args)-3):
		return errSyntax
	}
	keys, rest := keyStrings(args[2:2+n]), args[2+n:]
	isFront, err := parseEnd(rest[0])
	if err != nil {
		return err
	}
	count := int64(1)
	if rest = rest[1:]; len(rest) > 0 {
		if len(rest) < 2 || !equalFold(rest[0], "count") {
			return errSyntax
		}
		if count, ok = parseInt(rest[1]); !ok || count <= 0 {
			return errCountOf
		}
		if len(rest) > 2 {
			return errSyntax
		}
	}
	return c.popFirst(keys, isFront, count)
}

// popFirst takes elements from the first of some lists that exists.
func (c *connection) popFirst(keys []string, isFront bool, count int64) error {
	var popped []string
	var key string
	err := c.changeKeys(storageKeys(c.database, keys), func(ds []*draft) error {
		popped = nil
		for i, d := range ds {
			list, err := d.collection(value.List, c.nowMs())
			if err != nil {
				return err
			}
			if list.Len() > 0 {
				key, popped, d.written = keys[i], takeItems(list, isFront, count), true
				return nil
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case popped == nil:
		c.out.writeNullArray()
	default:
		c.out.writeArrayHeader(2)
		c.out.writeBulkString(key)
		c.writeTexts(popped)
	}
	return nil
}
