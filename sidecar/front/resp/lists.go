package resp

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/value"
)

var (
	errIndexRange = genericError("index out of range")
	errTooDeep    = genericError("too many elements were inserted beside each other; delete the list, and push it anew")
)

// LPUSH key element [element ...]
func lpush(c *connection, args [][]byte) error { return c.push(args, true, false) }

// RPUSH key element [element ...]
func rpush(c *connection, args [][]byte) error { return c.push(args, false, false) }

// LPUSHX key element [element ...]
func lpushX(c *connection, args [][]byte) error { return c.push(args, true, true) }

// RPUSHX key element [element ...]
func rpushX(c *connection, args [][]byte) error { return c.push(args, false, true) }

func (c *connection) push(args [][]byte, isFront, ifExists bool) error {
	texts := keyStrings(args[2:])
	length := 0
	return c.change(args[1], bytesOf(texts), value.List, func(ch *value.Change) (bool, error) {
		if length = ch.Len(); ifExists && length == 0 {
			return false, nil
		}
		for _, text := range texts {
			ch.Push(isFront, text)
		}
		length = ch.Len()
		return true, nil
	}, func() error {
		c.out.writeInteger(int64(length))
		return nil
	})
}

// LINSERT key BEFORE|AFTER pivot element
func linsert(c *connection, args [][]byte) error {
	isAfter := equalFold(args[2], "after")
	if !isAfter && !equalFold(args[2], "before") {
		return errSyntax
	}
	pivot, text := string(args[3]), string(args[4])
	length := 0
	return c.change(args[1], len(text)+elementBytes, value.List, func(ch *value.Change) (bool, error) {
		if length = ch.Len(); length == 0 {
			return false, nil
		}
		i := slices.IndexFunc(ch.Items(), func(item value.Item) bool { return item.Text == pivot })
		if i < 0 {
			length = -1
			return false, nil
		}
		if !ch.Insert(i, isAfter, text) {
			return false, errTooDeep
		}
		length = ch.Len()
		return true, nil
	}, func() error {
		c.out.writeInteger(int64(length))
		return nil
	})
}

// LSET key index element
func lset(c *connection, args [][]byte) error {
	at, text := args[2], string(args[3])
	index, ok := parseInt(at)
	return c.change(args[1], len(text), value.List, func(ch *value.Change) (bool, error) {
		i, inside := indexIn(index, ch.Len())
		switch {
		case ch.Len() == 0:
			return false, errNoSuchKey
		case !ok:
			return false, errNotInteger
		case !inside:
			return false, errIndexRange
		}
		ch.SetItem(i, text)
		return true, nil
	}, func() error {
		c.out.writeOK()
		return nil
	})
}

// indexIn returns which element of so many an index is of, of which a negative one is counted from the end.
func indexIn(index int64, n int) (i int, ok bool) {
	if index < 0 {
		index += int64(n)
	}
	return int(index), index >= 0 && index < int64(n)
}

// LPOP key [count]
func lpop(c *connection, args [][]byte) error { return c.popItems(args, true) }

// RPOP key [count]
func rpop(c *connection, args [][]byte) error { return c.popItems(args, false) }

func (c *connection) popItems(args [][]byte, isFront bool) error {
	if len(args) > 3 {
		return errArity(lowerName(args[0]))
	}
	count, hasCount := int64(1), len(args) == 3
	if hasCount {
		var ok bool
		if count, ok = parseInt(args[2]); !ok || count < 0 {
			return errNotPositive
		}
	}
	var popped []string
	exists := false
	return c.change(args[1], 0, value.List, func(ch *value.Change) (bool, error) {
		exists = ch.Len() > 0
		popped = takeItems(ch, isFront, count)
		return len(popped) > 0, nil
	}, func() error {
		switch {
		case !exists && hasCount:
			c.out.writeNullArray()
		case !exists:
			c.out.writeNull()
		case hasCount:
			c.writeTexts(popped)
		default:
			c.out.writeBulkString(popped[0])
		}
		return nil
	})
}

func lowerName(arg []byte) string {
	var name [maxNameBytes]byte
	return string(name[:copyLower(name[:], arg)])
}

// takeItems removes elements from an end of a list, and returns them, the outermost first.
func takeItems(ch *value.Change, isFront bool, count int64) (taken []string) {
	n := int(min(count, int64(ch.Len())))
	items := ch.Items()
	if isFront {
		for _, item := range items[:n] {
			taken = append(taken, item.Text)
		}
		ch.RemoveItems(0, n)
		return taken
	}
	from := len(items) - n
	for _, item := range slices.Backward(items[from:]) {
		taken = append(taken, item.Text)
	}
	ch.RemoveItems(from, len(items))
	return taken
}

func (c *connection) writeTexts(texts []string) {
	c.out.writeArrayHeader(len(texts))
	for _, text := range texts {
		c.out.writeBulkString(text)
		c.out.flushIfFull()
	}
}

// LREM key count element
func lrem(c *connection, args [][]byte) error {
	count, ok := parseInt(args[2])
	if !ok {
		return errNotInteger
	}
	text := string(args[3])
	removed := 0
	return c.change(args[1], 0, value.List, func(ch *value.Change) (bool, error) {
		removed = ch.RemoveEqual(text, count)
		return removed > 0, nil
	}, func() error {
		c.out.writeInteger(int64(removed))
		return nil
	})
}

// LTRIM key start stop
func ltrim(c *connection, args [][]byte) error {
	start, ok1 := parseInt(args[2])
	stop, ok2 := parseInt(args[3])
	if !ok1 || !ok2 {
		return errNotInteger
	}
	return c.change(args[1], 0, value.List, func(ch *value.Change) (bool, error) {
		n := ch.Len()
		from, to := rangeOf(start, stop, n)
		if to-from == n {
			return false, nil
		}
		ch.RemoveItems(to, n)
		ch.RemoveItems(0, from)
		return true, nil
	}, func() error {
		c.out.writeOK()
		return nil
	})
}

// rangeOf returns which elements of so many are from start to stop, of which negative ones are counted from the end.
func rangeOf(start, stop int64, n int) (from, to int) {
	length := int64(n)
	if start < 0 {
		start = max(start+length, 0)
	}
	if stop < 0 {
		stop += length
	}
	if stop = min(stop, length-1); start > stop || start >= length {
		return 0, 0
	}
	return int(start), int(stop) + 1
}
