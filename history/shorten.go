package history

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// shortenBudget bounds the total number of operations that Shorten checks: some seconds of work.
const shortenBudget = 4 << 20

// Shorten returns a part of the history that still has a violation of that kind, as short as a bounded search finds.
// Removing operations never creates a violation that the whole history does not have: with a write go the reads that
// returned it, with a delete the reads that it may explain, with a token its resumption. The violation must be from a
// report on h.
//
// Updates are gets and puts in it, as they are checked: without one of two updates with the same reply it would not be
// true any more that nobody knows what a third one has found.
//
// A history with values that merge is returned as it is: the reads that a removed write leaves behind would lack it.
func Shorten(h History, v Violation) History {
	if slices.ContainsFunc(h, func(op Op) bool { return op.Kind == Add }) {
		return h
	}
	ops := v.Ops
	if plain, places, _ := withoutUpdates(h, false); places != nil {
		h, ops = plain, nil
		for i, at := range places {
			if slices.Contains(v.Ops, at) {
				ops = append(ops, i)
			}
		}
	}
	s := shortener{kind: v.Kind, budget: shortenBudget}
	best := h
	// The chain of the explanation usually suffices, together with the deletes that could have explained its reads.
	chain := slices.Clone(ops)
	keys := make(map[string]bool)
	for _, i := range ops {
		keys[h[i].Key] = true
		for _, r := range slices.Concat(h[i].Reads, h[i].Writes) {
			keys[r.Key] = true
		}
	}
	for i := range h {
		if h[i].Kind == Delete && keys[h[i].Key] ||
			slices.ContainsFunc(h[i].Writes, func(w Read) bool { return w.Missing && keys[w.Key] }) {
			chain = append(chain, i)
		}
	}
	if short := s.closed(h, pick(chain)); s.fails(short) {
		best = short
	}
	for parts := 2; len(best) > 1 && s.budget > 0; {
		size := (len(best) + parts - 1) / parts
		shorter := s.withoutOnePart(best, size)
		switch {
		case shorter != nil:
			best = shorter
			parts = max(parts-1, 2)
		case size == 1:
			return best
		default:
			parts = min(2*parts, len(best))
		}
	}
	return best
}

type shortener struct {
	checker Checker
	kind    Kind
	budget  int
}

func (s *shortener) fails(h History) bool {
	s.budget -= len(h) + 1
	explained := max(defaultMaxViolations, min(1000, 1<<20/(len(h)+1))) // each searches the history again
	return s.checker.Check(h, Options{MaxViolations: explained}).Has(s.kind)
}

func (s *shortener) withoutOnePart(h History, size int) History {
	for from := 0; from < len(h) && s.budget > 0; from += size {
		rest := make([]int, 0, len(h))
		for i := range h {
			if i < from || i >= from+size {
				rest = append(rest, i)
			}
		}
		if shorter := s.closed(h, rest); len(shorter) < len(h) && s.fails(shorter) {
			return shorter
		}
	}
	return nil
}

func pick(ops []int) []int {
	slices.Sort(ops)
	return slices.Compact(ops)
}

// written identifies a put by what it wrote.
type written struct{ key, value string }

// tombstone identifies a delete by what a read of it returns.
type tombstone struct {
	key     string
	version causal.Version
}

// closed returns the picked operations of h without the reads that only removed operations could justify.
func (s *shortener) closed(h History, picked []int) History {
	in := make([]bool, len(h))
	for _, i := range picked {
		in[i] = true
	}
	puts, deletes := make(map[written]bool), make(map[tombstone]bool)
	deletedKeys, tokens := make(map[string]bool), make(map[string]bool)
	kept := make(map[tombstone]bool)
	plain, places := withoutCommits(h)
	for i := range plain {
		op, at := &plain[i], i
		if places != nil {
			at = places[i]
		}
		if in[at] {
			if op.Kind == Delete && !op.Version.IsZero() {
				kept[tombstone{op.Key, op.Version}] = true
			}
			continue
		}
		switch op.Kind {
		case Put:
			puts[written{op.Key, op.Value}] = true
		case Delete:
			deletes[tombstone{op.Key, op.Version}] = true
			deletedKeys[op.Key] = true
		case Token:
			tokens[op.Token] = true
		}
	}
	unjustified := func(key, value string, missing bool, v causal.Version) bool {
		switch {
		case !missing:
			return puts[written{key, value}]
		case v.IsZero():
			return deletedKeys[key]
		}
		// A delete of unknown version may be the one that was read.
		return !kept[tombstone{key, v}] && (deletes[tombstone{key, v}] || deletes[tombstone{key: key}])
	}
	var out History
	for _, i := range picked {
		op := h[i]
		switch {
		case op.Kind == Get && unjustified(op.Key, op.Value, op.Missing, op.Version):
			continue
		case op.Kind == Resume && tokens[op.Token]:
			continue
		case op.Kind == MGet, op.Kind == Commit:
			op.Reads = slices.DeleteFunc(slices.Clone(op.Reads), func(r Read) bool {
				return unjustified(r.Key, r.Value, r.Missing, r.Version)
			})
			if len(op.Reads)+len(op.Writes) == 0 {
				continue
			}
		}
		out = append(out, op)
	}
	return out
}
