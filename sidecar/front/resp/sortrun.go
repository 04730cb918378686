package resp

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// sortRun is a SORT with what it has read: its key, and those that patterns name. Which these are, it finds out as it
// sorts; then all are read anew together, and it sorts again, until it has all.
type sortRun struct {
	sorting
	keys    []string // that are read; the first one is sorted
	values  map[string]causal.Value
	missed  []string // keys that it needs, and that are not read
	results []sortResult
}

// sortResult is what is returned of an element; ok is false if a key is missing.
type sortResult struct {
	text string
	ok   bool
}

var errMissesKeys = errors.New("other keys are needed")

// maxSortRounds bounds how often the keys are read: others may change meanwhile which ones patterns name.
const maxSortRounds = 10

// untilRead calls f to read the keys and to run, until the patterns name no others.
func (s *sortRun) untilRead(c *connection, f func() error) error {
	limit := c.server.options.Limits.MaxMGetKeys
	for range maxSortRounds {
		if err := f(); !errors.Is(err, errMissesKeys) {
			return err
		}
		if s.keys = append(s.keys, s.missed...); len(s.keys) > limit {
			return Errorf("ERR", "SORT of %d keys, more than the limit of %d; read the values, and sort in the client",
				len(s.keys), limit)
		}
	}
	return errSortChanges
}

// run sorts what was read of the keys.
func (s *sortRun) run(c *connection, read []causal.Value) error {
	s.values, s.missed, s.results = make(map[string]causal.Value, len(read)), nil, nil
	for i, key := range s.keys {
		v := read[i]
		if !c.isLive(v) {
			v = tombstone
		}
		s.values[key] = v
	}
	kind, elements, err := sortable(s.values[s.keys[0]])
	if err != nil {
		return err
	}
	elements, err = s.sorted(kind, elements)
	if len(s.missed) > 0 {
		return errMissesKeys
	}
	if err != nil {
		return err
	}
	for _, element := range elements {
		if len(s.gets) == 0 {
			s.results = append(s.results, sortResult{element, true})
		}
		for i := range s.gets {
			text, ok := s.lookUp(&s.gets[i], element)
			s.results = append(s.results, sortResult{text, ok})
		}
	}
	if len(s.missed) > 0 {
		return errMissesKeys
	}
	return nil
}

// sortable returns the elements of a value in their order.
func sortable(v causal.Value) (kind value.Kind, elements []string, err error) {
	h := value.CollectionOf(v)
	switch kind = value.KindOf(v); {
	case v.Tombstone:
	case kind == value.List:
		elements = h.Texts()
	case kind == value.Set:
		for member := range h.All() {
			elements = append(elements, member)
		}
	case kind == value.SortedSet:
		for _, m := range inOrder(h.All()) {
			elements = append(elements, m.name)
		}
	default:
		err = errWrongType
	}
	return kind, elements, err
}

// lookUp returns what a pattern names for an element.
func (s *sortRun) lookUp(p *sortPattern, element string) (found string, ok bool) {
	switch p.names {
	case namesNothing:
		return "", false
	case namesElement:
		return element, true
	}
	key := p.before + element + p.after
	v, isRead := s.values[key]
	if !isRead {
		s.missed, s.values[key] = append(s.missed, key), tombstone
		return "", false
	}
	if p.names == namesField {
		if value.KindOf(v) != value.Hash {
			return "", false
		}
		h := value.CollectionOf(v)
		return h.Get(p.field)
	}
	text, isString := asString(v)
	return string(text.Data), isString && !v.Tombstone
}

// sortedElement is an element with what it is sorted by.
type sortedElement struct {
	element string
	number  float64
	text    string
	has     bool // the text
}

// sorted returns the elements that are asked for, in their order. It may change the slice that it is given.
func (s *sortRun) sorted(kind value.Kind, elements []string) ([]string, error) {
	from, to := s.rangeOf(len(elements))
	if s.isUnsorted && (kind != value.Set || s.store == nil) {
		if s.descends && kind != value.Set {
			slices.Reverse(elements)
		}
		return elements[from:to], nil
	}
	by, isText := s.by, s.isText
	if s.isUnsorted { // a set that is stored: as texts, so that the list is always the same
		by, isText = nil, true
	}
	all := make([]sortedElement, len(elements))
	for i, element := range elements {
		e := sortedElement{element: element, text: element, has: true}
		if by != nil {
			e.text, e.has = s.lookUp(by, element)
		}
		if e.has && !isText {
			var ok bool
			if e.number, ok = sortedNumber(e.text); !ok {
				return nil, errNotSortable
			}
		}
		all[i] = e
	}
	s.sort(all, isText, by != nil)
	for i := range all {
		elements[i] = all[i].element
	}
	return elements[from:to], nil
}

// sort sorts elements: equal numbers by the elements, and equal texts not at all.
func (s *sorting) sort(all []sortedElement, isText, isBy bool) {
	slices.SortStableFunc(all, func(a, b sortedElement) (c int) {
		switch {
		case !isText:
			c = cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.element, b.element))
		case a.has != b.has:
			c = int(oneIf(a.has)) - int(oneIf(b.has))
		case s.store != nil:
			c = strings.Compare(a.text, b.text)
		default: // as by strcoll
			c = strings.Compare(beforeZero(a.text), beforeZero(b.text))
		}
		if s.descends {
			return -c
		}
		return c
	})
}

func beforeZero(text string) string {
	text, _, _ = strings.Cut(text, "\x00")
	return text
}

// sortedNumber parses a number as C does.
func sortedNumber(text string) (float64, bool) {
	n, isInRange, ok := parseNumber(beforeZero(text))
	return n, ok && isInRange
}
