package resp

import (
	"hash/fnv"
	"iter"
	"slices"
	"strconv"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/sidecar/value"
)

// Commands of hashes, sets, sorted sets and lists. Those that read get the whole value, and those that write put what
// they change.

// edit is a command that changes a collection of a kind, or a string. It may be called again, if others have written
// the key meanwhile, and changes nothing if it fails. apply reports whether it has changed something. text returns what
// becomes of a string, and nil if it stays as it is; it does not change the old one.
type edit struct {
	kind  value.Kind
	apply func(ch *value.Change) (writes bool, err error)
	text  func(old []byte) (next []byte, err error) // instead of kind and apply
}

// change executes a command that changes a collection, as update does. added is how many bytes it may add, at most.
func (c *connection) change(key []byte, added int, kind value.Kind, apply func(*value.Change) (bool, error),
	reply func() error) error {
	e := &edit{kind: kind, apply: func(ch *value.Change) (bool, error) {
		if err := c.checkSize(ch.Size() + added); added > 0 && err != nil {
			return false, err
		}
		return apply(ch)
	}}
	return c.updateBy(update{name: storageKey(c.database, string(key)), edit: e,
		reply: func(*operation.Outcome) error { return reply() }}, len(key)+added)
}

// maxCollectionBytes bounds a collection, with what it remembers of removed elements. Several data centers may fill one
// at the same time, and remove all of it again, which takes more bytes: a message has room for what eight make of it.
const maxCollectionBytes = 1 << 20

// checkSize returns an error if a collection would become too large.
func (c *connection) checkSize(bytes int) error {
	if limit := min(maxCollectionBytes, c.server.options.Limits.MaxValueBytes); bytes > limit {
		return errTooLong("the resulting value", bytes, limit)
	}
	return nil
}

// elementBytes is about what an element takes besides its name and its payload.
const elementBytes = 32

// bytesOf is about how many bytes elements with such names and payloads take.
func bytesOf(texts []string) (n int) {
	for _, text := range texts {
		n += len(text) + elementBytes
	}
	return n
}

// collectionAt reads the collection of a kind; a missing key is an empty one.
func (c *connection) collectionAt(key []byte, kind value.Kind) (value.Collection, error) {
	v, _, err := c.getLive(string(key))
	if err != nil {
		return value.Collection{}, err
	}
	return c.collectionIn(v, kind)
}

// collectionIn returns the collection of a kind in a value that was read.
func (c *connection) collectionIn(v causal.Value, kind value.Kind) (value.Collection, error) {
	switch {
	case !c.isLive(v):
		return value.Collection{}, nil
	case value.KindOf(v) != kind:
		return value.Collection{}, errWrongType
	}
	return value.CollectionOf(v), nil
}

// store makes a key the collection of some elements; of none, it deletes the key.
func (c *connection) store(to *draft, kind value.Kind, elements iter.Seq2[string, string]) error {
	size := 0
	for name, payload := range elements {
		size += len(name) + len(payload) + elementBytes
	}
	if size == 0 && !to.exists(c.nowMs()) {
		return nil
	}
	if err := c.checkSize(size); err != nil {
		return err
	}
	to.set(tombstone)
	ch, err := to.collection(kind, c.nowMs())
	if err != nil {
		return err
	}
	for name, payload := range elements {
		addElement(ch, kind, name, payload)
	}
	return nil
}

// addElement adds an element of another collection: one of a list becomes the last one.
func addElement(ch *value.Change, kind value.Kind, name, payload string) {
	switch {
	case kind == value.List:
		ch.Push(false, payload)
	case kind == value.HyperLogLog && name != "":
		ch.Raise(name, []byte(payload))
	default:
		ch.Add(kind, name, payload)
	}
}

// scanElements executes HSCAN or SSCAN. A cursor is a place in the order of the hashes of the elements' names, so what
// is there during the whole scan is returned. A small collection is returned at once.
func (c *connection) scanElements(args [][]byte, kind value.Kind, write func(name, payload string), each int) error {
	cursor, err := parseCursor(args[2])
	if err != nil {
		return err
	}
	h, err := c.collectionAt(args[1], kind)
	if err != nil {
		return err
	}
	o := scanOptions{}
	if h.Len() > 0 { // Redis looks at the options only then
		if o, err = parseScanOptions(args[3:], false); err != nil {
			return err
		}
	}
	found, next := pageOf(&h, cursor, o.count)
	if o.pattern != "" {
		found = slices.DeleteFunc(found, func(e scannedElement) bool { return !matchGlob(o.pattern, e.name, false) })
	}
	c.out.writeArrayHeader(2)
	c.out.writeBulkString(strconv.FormatUint(next, 10))
	c.out.writeArrayHeader(each * len(found))
	for _, e := range found {
		write(e.name, e.payload)
		c.out.flushIfFull()
	}
	return nil
}

// smallCollection is how many elements a scan returns at once, whatever the cursor is, as Redis does.
const smallCollection = 128

type scannedElement struct {
	place         uint64
	name, payload string
}

// pageOf returns the elements of the next page of a scan, and its cursor for the one after it.
func pageOf(h *value.Collection, cursor uint64, count int) (page []scannedElement, next uint64) {
	for name, payload := range h.All() {
		f := fnv.New64a()
		_, _ = f.Write([]byte(name))
		if place := f.Sum64(); place >= cursor || h.Len() <= smallCollection {
			page = append(page, scannedElement{place, name, payload})
		}
	}
	if h.Len() <= smallCollection {
		return page, 0
	}
	slices.SortFunc(page, func(a, b scannedElement) int {
		if a.place < b.place {
			return -1
		}
		return int(oneIf(a.place > b.place))
	})
	for n := count; n < len(page); n++ {
		if page[n].place != page[n-1].place { // those of one place stay together
			return page[:n], page[n].place
		}
	}
	return page, 0
}
