package resp

import (
	"errors"

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
	return c.moveItemOnce(itemMove{string(args[1]), string(args[2]), from, to})
}

// RPOPLPUSH source destination
func rpopLpush(c *connection, args [][]byte) error {
	return c.moveItemOnce(itemMove{string(args[1]), string(args[2]), false, true})
}

// itemMove moves an element from an end of a list to one of another list, or of the same.
type itemMove struct {
	source, destination string
	from, to            bool // the front
}

func (c *connection) moveItemOnce(m itemMove) error {
	moved, isMoved, err := c.moveItem(m, false)
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

// moveItem moves an element. A list of which it is the last one keeps its expire time if it is the destination. If the
// client waits, a source of another type is taken for one that has nothing.
func (c *connection) moveItem(m itemMove, waits bool) (moved string, isMoved bool, err error) {
	err = c.changeKeys(storageKeys(c.database, []string{m.destination, m.source}), func(ds []*draft) error {
		isMoved = false
		list, err := ds[1].collection(value.List, c.nowMs())
		if waits && errors.Is(err, errWrongType) {
			return nil
		}
		if err != nil || list.Len() == 0 {
			return err
		}
		target, err := ds[0].collection(value.List, c.nowMs())
		if err != nil {
			return err
		}
		i := list.Len() - 1
		if m.from {
			i = 0
		}
		moved, isMoved = list.Items()[i].Text, true
		if err := c.checkSize(target.Size() + len(moved) + elementBytes); err != nil {
			return err
		}
		if target.Push(m.to, moved); target == list && m.to {
			i++
		}
		list.RemoveItems(i, i+1)
		ds[0].written, ds[1].written = true, true
		return nil
	})
	return moved, isMoved, err
}

// LMPOP numkeys key [key ...] LEFT|RIGHT [COUNT count]
func lmpop(c *connection, args [][]byte) error {
	keys, isFront, count, err := parseListPop(args[1:])
	if err != nil {
		return err
	}
	popped, err := c.popFirst(keys, isFront, count, false)
	switch {
	case err != nil:
		return err
	case popped.items == nil:
		c.out.writeNullArray()
	default:
		c.writePoppedItems(&popped)
	}
	return nil
}

// parseListPop parses the arguments of LMPOP.
func parseListPop(args [][]byte) (keys []string, isFront bool, count int64, err error) {
	n, ok := parseInt(args[0])
	switch {
	case !ok || n <= 0:
		return nil, false, 0, errNumkeys
	case n > int64(len(args)-2):
		return nil, false, 0, errSyntax
	}
	keys, rest := keyStrings(args[1:1+n]), args[1+n:]
	if isFront, err = parseEnd(rest[0]); err != nil {
		return nil, false, 0, err
	}
	count = 1
	if rest = rest[1:]; len(rest) > 0 {
		if len(rest) < 2 || !equalFold(rest[0], "count") {
			return nil, false, 0, errSyntax
		}
		if count, ok = parseInt(rest[1]); !ok || count <= 0 {
			return nil, false, 0, errCountOf
		}
		if len(rest) > 2 {
			return nil, false, 0, errSyntax
		}
	}
	return keys, isFront, count, nil
}

// poppedItems are elements that were taken from a list.
type poppedItems struct {
	key   string
	items []string // the outermost first; nil: there were none
}

// popFirst takes elements from the first of some lists that exists. If the client waits, keys of another type are
// passed over.
func (c *connection) popFirst(keys []string, isFront bool, count int64, waits bool) (p poppedItems, err error) {
	err = c.changeKeys(storageKeys(c.database, keys), func(ds []*draft) error {
		p = poppedItems{}
		for i, d := range ds {
			list, err := d.collection(value.List, c.nowMs())
			if waits && errors.Is(err, errWrongType) {
				continue
			}
			if err != nil {
				return err
			}
			if list.Len() > 0 {
				p.key, p.items, d.written = keys[i], takeItems(list, isFront, count), true
				return nil
			}
		}
		return nil
	})
	return p, err
}

func (c *connection) writePoppedItems(p *poppedItems) {
	c.out.writeArrayHeader(2)
	c.out.writeBulkString(p.key)
	c.writeTexts(p.items)
}
