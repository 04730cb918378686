package resp

import (
	"bytes"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// SORT and SORT_RO sort the elements of a list, a set or a sorted set, by themselves or by values of other keys. These
// are named by patterns, in which * stands for an element.

var (
	errNotSortable = genericError("One or more scores can't be converted into double")
	errSortChanges = genericError("what is sorted has changed again and again while the keys of its patterns were " +
		"read; try again")
)

// sorting is how elements are sorted.
type sorting struct {
	descends, isText bool
	start, count     int64
	by               *sortPattern // nil: by the elements themselves
	isUnsorted       bool
	gets             []sortPattern
	store            []byte // nil: reply
}

// parseSorting parses what follows the key.
func parseSorting(args [][]byte, readOnly bool) (s sorting, err error) {
	s.count = -1
	for i := 0; i < len(args); i++ {
		word, left := args[i], len(args)-i-1
		switch {
		case equalFold(word, "asc"):
			s.descends = false
		case equalFold(word, "desc"):
			s.descends = true
		case equalFold(word, "alpha"):
			s.isText = true
		case equalFold(word, "limit") && left >= 2:
			var ok1, ok2 bool
			s.start, ok1 = parseInt(args[i+1])
			s.count, ok2 = parseInt(args[i+2])
			if i += 2; !ok1 || !ok2 {
				return s, errNotInteger
			}
		case !readOnly && equalFold(word, "store") && left >= 1:
			i++
			s.store = args[i]
		case equalFold(word, "by") && left >= 1:
			i++
			by := parseSortPattern(args[i])
			s.by = &by
			s.isUnsorted = s.isUnsorted || by.names < namesString
		case equalFold(word, "get") && left >= 1:
			i++
			s.gets = append(s.gets, parseSortPattern(args[i]))
		default:
			return s, errSyntax
		}
	}
	return s, nil
}

// rangeOf returns which of so many elements are returned.
func (s *sorting) rangeOf(n int) (from, to int) {
	length := int64(n)
	first := min(max(s.start, 0), length)
	last := length
	if count := min(s.count, length); count >= 0 {
		last = min(first+count, length)
	}
	return int(first), int(last)
}

// sortPattern names a key, or a field of a hash, for each element.
type sortPattern struct {
	names         patternTarget
	before, after string // the *
	field         string
}

type patternTarget uint8

const (
	namesNothing patternTarget = iota
	namesElement
	namesString
	namesField
)

// parseSortPattern parses a pattern as C does, where a text ends at a zero byte.
func parseSortPattern(arg []byte) (p sortPattern) {
	text, _, _ := bytes.Cut(arg, []byte{0})
	star := bytes.IndexByte(text, '*')
	switch {
	case string(text) == "#":
		p.names = namesElement
	case star >= 0:
		p.names, p.before, p.after = namesString, string(arg[:star]), string(arg[star+1:])
		if arrow := bytes.Index(text[star+1:], []byte("->")); arrow >= 0 && star+1+arrow+2 < len(text) {
			p.names, p.field = namesField, p.after[arrow+2:]
			p.after = p.after[:arrow]
		}
	}
	return p
}

// SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA] [STORE destination]
func sortKey(c *connection, args [][]byte) error { return c.sort(args, false) }

// SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA]
func sortRO(c *connection, args [][]byte) error { return c.sort(args, true) }

func (c *connection) sort(args [][]byte, readOnly bool) error {
	o, err := parseSorting(args[2:], readOnly)
	if err != nil {
		return err
	}
	s := &sortRun{sorting: o, keys: []string{string(args[1])}}
	if s.store != nil {
		return c.storeSorted(s, string(s.store))
	}
	err = s.untilRead(c, func() error {
		read, err := c.getAll(s.keys)
		if err != nil {
			return err
		}
		return s.run(c, read)
	})
	if err != nil {
		return err
	}
	c.out.writeArrayHeader(len(s.results))
	for _, r := range s.results {
		if r.ok {
			c.out.writeBulkString(r.text)
		} else {
			c.out.writeNull()
		}
		c.out.flushIfFull()
	}
	return nil
}

// storeSorted makes a key the list of what is sorted, in one step with all keys that are read.
func (c *connection) storeSorted(s *sortRun, destination string) error {
	err := s.untilRead(c, func() error {
		names := storageKeys(c.database, append([]string{destination}, s.keys...))
		return c.changeKeys(names, func(ds []*draft) error {
			read := make([]causal.Value, len(s.keys))
			for i, d := range ds[1:] {
				read[i] = d.current()
			}
			if err := s.run(c, read); err != nil {
				return err
			}
			return c.store(ds[0], value.List, func(yield func(name, text string) bool) {
				for _, r := range s.results {
					if !yield("", r.text) {
						return
					}
				}
			})
		})
	})
	if err != nil {
		return err
	}
	c.out.writeInteger(int64(len(s.results)))
	return nil
}
