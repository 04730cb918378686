package resp

import (
	"math/rand/v2"
	"slices"

	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/sidecar/value"
)

// Commands of streams. Entries never change, so data centers add and remove them at the same time. What groups have
// read is in streamgroups.go.

var (
	errID0       = genericError("The ID specified in XADD must be greater than 0-0")
	errIDTop     = genericError("The ID specified in XADD is equal or smaller than the target stream top item")
	errIDsUsedUp = genericError("The stream has exhausted the last possible ID, unable to add more items")
	errAddedNot0 = genericError("entries_added must be positive")
	errAddedFew  = genericError("The entries_added specified in XSETID is smaller than the target stream length")
	errSetTop    = genericError("The ID specified in XSETID is smaller than the target stream top item")
	errSetGiven  = genericError("The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
)

// changeStream executes a command that changes a stream, as change does. apply checks for itself how large that
// becomes.
func (c *connection) changeStream(key []byte, bytes int, apply func(*value.StreamLog, *value.Change) (bool, error),
	reply func() error) error {
	e := &edit{kind: value.Stream, apply: func(ch *value.Change) (bool, error) { return apply(ch.Stream(), ch) }}
	return c.updateBy(update{name: storageKey(c.database, string(key)), edit: e,
		reply: func(*operation.Outcome) error { return reply() }}, len(key)+bytes)
}

// checkStream returns an error if a stream would become too large.
func (c *connection) checkStream(bytes int) error {
	if limit := min(maxCollectionBytes, c.server.options.Limits.MaxValueBytes); bytes > limit {
		return Errorf("ERR", "the resulting stream is %d bytes, more than the limit of %d bytes; "+
			"trim it with XTRIM, or with MAXLEN or MINID of XADD", bytes, limit)
	}
	return nil
}

// idStep is how far the numbers of the ids are apart that a data center makes itself in a millisecond. The rest is the
// data center's, so no two make the same id.
const idStep = 64

// nextID returns the id of an entry that is added now, or, with ms, in that millisecond. ok is false if there is none.
func (c *connection) nextID(s *value.StreamLog, ms uint64) (id value.StreamID, ok bool) {
	first := value.StreamID{Ms: ms} // the least that may be
	if !first.Less(s.Last) && first != s.Last {
		first.Seq = 0
	} else if first, ok = s.Last.Next(); !ok || first.Ms != ms {
		return first, false
	}
	line := uint64(c.line())
	if line == 0 { // others may add at the same time, and are not known
		first.Seq += idStep + rand.Uint64N(1<<32)
		return first, s.Last.Less(first) && first.Ms == ms
	}
	at := first.Seq
	first.Seq += (line - 1 + idStep - first.Seq%idStep) % idStep
	if first == (value.StreamID{}) {
		first.Seq = idStep
	}
	return first, first.Seq >= at
}

// newID returns the id of an entry that is added, which the options may say.
func (c *connection) newID(s *value.StreamLog, o *entryOptions) (id value.StreamID, err error) {
	var ok bool
	switch {
	case s.Last == value.MaxStreamID:
		return id, errIDsUsedUp
	case o.hasID && !o.anySeq:
		id, ok = o.id, s.Last.Less(o.id)
	case o.hasID:
		if ok = o.id.Ms >= s.Last.Ms; ok {
			id, ok = c.nextID(s, o.id.Ms)
		}
	default:
		ms := max(uint64(c.nowMs()), s.Last.Ms)
		if id, ok = c.nextID(s, ms); !ok {
			id, ok = c.nextID(s, ms+1)
		}
	}
	if !ok {
		return id, errIDTop
	}
	return id, nil
}

// XADD key [NOMKSTREAM] [MAXLEN|MINID [=|~] threshold [LIMIT count]] *|id field value [field value ...]
func xadd(c *connection, args [][]byte) error {
	o, at, err := parseEntryOptions(args, true)
	if err != nil {
		return err
	}
	fields := keyStrings(args[min(at+1, len(args)):])
	switch {
	case len(fields) < 2 || len(fields)%2 != 0:
		return errArity("xadd")
	case o.hasID && !o.anySeq && o.id == (value.StreamID{}):
		return errID0
	}
	id, isAdded := value.StreamID{}, false
	bytes := bytesOf(fields) + 3*elementBytes
	return c.changeStream(args[1], bytes, func(s *value.StreamLog, ch *value.Change) (isWritten bool, err error) {
		if isAdded = !o.noMake || ch.Len() > 0; !isAdded {
			return false, nil
		}
		if id, err = c.newID(s, &o); err != nil {
			return false, err
		}
		left := min(o.count(s, 1), len(s.Entries))
		if err := c.checkStream(ch.Size() + bytes - s.Bytes(left)); err != nil {
			return false, err
		}
		s.Append(id, c.line(), fields)
		s.RemoveFirst(o.count(s, 0))
		return true, nil
	}, func() error {
		if !isAdded {
			c.out.writeNull()
			return nil
		}
		c.out.writeBulkString(id.String())
		return nil
	})
}

// XTRIM key MAXLEN|MINID [=|~] threshold [LIMIT count]
func xtrim(c *connection, args [][]byte) error {
	o, _, err := parseEntryOptions(args, false)
	if err != nil {
		return err
	}
	removed := 0
	return c.changeStream(args[1], 0, func(s *value.StreamLog, _ *value.Change) (bool, error) {
		removed = o.count(s, 0)
		s.RemoveFirst(removed)
		return removed > 0, nil
	}, func() error {
		c.out.writeInteger(int64(removed))
		return nil
	})
}

// XDEL key id [id ...]
func xdel(c *connection, args [][]byte) error {
	ids, wrong := parseStrictIDs(args[2:])
	removed := 0
	return c.changeStream(args[1], 0, func(s *value.StreamLog, ch *value.Change) (bool, error) {
		removed = 0
		switch {
		case ch.Len() == 0: // Redis looks at the ids only if there is a stream
			return false, nil
		case wrong != nil:
			return false, wrong
		}
		for _, id := range ids {
			removed += int(oneIf(s.Delete(id, c.line())))
		}
		return removed > 0, nil
	}, func() error {
		c.out.writeInteger(int64(removed))
		return nil
	})
}

// XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]
func xsetID(c *connection, args [][]byte) error {
	last, err := parseStrictID(args[2])
	if err != nil {
		return err
	}
	added, hasAdded, maxDeleted := int64(0), false, value.StreamID{}
	for i := 3; i < len(args); i += 2 {
		switch isLast := i+1 == len(args); {
		case !isLast && equalFold(args[i], "entriesadded"):
			if added, hasAdded = parseInt(args[i+1]); !hasAdded {
				return errNotInteger
			}
			if added < 0 {
				return errAddedNot0
			}
		case !isLast && equalFold(args[i], "maxdeletedid"):
			if maxDeleted, err = parseStrictID(args[i+1]); err != nil {
				return err
			}
			if last.Less(maxDeleted) {
				return errSetGiven
			}
		default:
			return errSyntax
		}
	}
	return c.changeStream(args[1], elementBytes, func(s *value.StreamLog, ch *value.Change) (bool, error) {
		n := len(s.Entries)
		switch {
		case ch.Len() == 0:
			return false, errNoSuchKey
		case n > 0 && last.Less(s.Entries[n-1].ID):
			return false, errSetTop
		case n > 0 && hasAdded && added < int64(n):
			return false, errAddedFew
		}
		s.SetLast(c.line(), last, added, hasAdded, maxDeleted)
		return true, nil
	}, func() error {
		c.out.writeOK()
		return nil
	})
}

// streamAt reads a stream. ok is false if there is none.
func (c *connection) streamAt(key []byte) (s *value.StreamLog, ok bool, err error) {
	h, err := c.collectionAt(key, value.Stream)
	if err != nil {
		return nil, false, err
	}
	return value.StreamOf(&h), h.Len() > 0, nil
}

// XLEN key
func xlen(c *connection, args [][]byte) error {
	s, _, err := c.streamAt(args[1])
	if err != nil {
		return err
	}
	c.out.writeInteger(int64(len(s.Entries)))
	return nil
}

// XRANGE key start end [COUNT count]
func xrange(c *connection, args [][]byte) error {
	return c.rangeOfStream(args, args[2], args[3], false)
}

// XREVRANGE key end start [COUNT count]
func xrevRange(c *connection, args [][]byte) error {
	return c.rangeOfStream(args, args[3], args[2], true)
}

func (c *connection) rangeOfStream(args [][]byte, start, end []byte, isReverse bool) error {
	from, err := parseFromID(start)
	if err != nil {
		return err
	}
	to, err := parseToID(end)
	if err != nil {
		return err
	}
	count := int64(-1)
	for i := 4; i < len(args); i += 2 {
		if !equalFold(args[i], "count") || i+1 == len(args) {
			return errSyntax
		}
		n, ok := parseInt(args[i+1])
		if !ok {
			return errNotInteger
		}
		count = max(n, 0)
	}
	s, exists, err := c.streamAt(args[1])
	switch {
	case err != nil:
		return err
	case exists && count == 0:
		c.out.writeNullArray()
		return nil
	}
	found := entriesBetween(s, from, to)
	if isReverse {
		slices.Reverse(found)
	}
	if count > 0 {
		found = found[:min(int64(len(found)), count)]
	}
	c.writeEntries(found)
	return nil
}

func entriesBetween(s *value.StreamLog, from, to value.StreamID) []value.StreamEntry {
	i, _ := s.Find(from)
	j, isThere := s.Find(to)
	if isThere {
		j++
	}
	return slices.Clone(s.Entries[i:max(i, j)])
}

func (c *connection) writeEntries(entries []value.StreamEntry) {
	c.out.writeArrayHeader(len(entries))
	for i := range entries {
		c.writeEntry(&entries[i])
		c.out.flushIfFull()
	}
}

func (c *connection) writeEntry(e *value.StreamEntry) {
	c.out.writeArrayHeader(2)
	c.out.writeBulkString(e.ID.String())
	c.writeTexts(e.Fields())
}
