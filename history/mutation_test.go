package history

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// mutations put one error into a correct history. They return nil where they find no place for it.
var mutations = map[string]func(r *rand.Rand, h History) History{
	"a value from nowhere": func(r *rand.Rand, h History) History {
		return onGet(r, h, func(i int) bool {
			h[i].Value, h[i].Missing = "nowhere", false
			return true
		})
	},
	"own write not read": func(r *rand.Rand, h History) History {
		return onGet(r, h, func(i int) bool {
			if h[i].Missing || deletes(h, h[i].Key) || !slices.ContainsFunc(h[:i], func(op Op) bool {
				return op.Kind == Put && op.OK && op.Process == h[i].Process && op.Key == h[i].Key
			}) {
				return false
			}
			h[i].Value, h[i].Missing, h[i].Version = "", true, causal.Version{}
			return true
		})
	},
	"an older value read again": func(r *rand.Rand, h History) History {
		return onGet(r, h, func(i int) bool {
			for j := range i {
				if old := &h[j]; old.Process == h[i].Process && old.Key == h[i].Key && old.OK && old.Kind == Get &&
					!old.Missing {
					was := h[i]
					h[i].Value, h[i].Missing, h[i].Version = old.Value, false, old.Version
					if len(kindsOf(h)) > 0 {
						return true
					}
					h[i] = was // nothing superseded it in between
				}
			}
			return false
		})
	},
	"a final read that finds nothing": func(_ *rand.Rand, h History) History {
		for i := range h {
			if op := &h[i]; op.Final && !op.Missing && !deletes(h, op.Key) {
				op.Value, op.Missing, op.Version = "", true, causal.Version{}
				return h
			}
		}
		return nil
	},
	"a read with another version than its write": func(r *rand.Rand, h History) History {
		return onGet(r, h, func(i int) bool {
			if h[i].Missing || !slices.ContainsFunc(h, func(op Op) bool {
				return op.Kind == Put && op.Key == h[i].Key && op.Value == h[i].Value && !op.Version.IsZero()
			}) {
				return false
			}
			h[i].Version.HLC += 1000
			return true
		})
	},
	"one version for two writes": func(_ *rand.Rand, h History) History {
		first := -1
		for i := range h {
			if !h[i].isWrite() || h[i].Version.IsZero() {
				continue
			}
			if first >= 0 {
				h[i].Version = h[first].Version
				return h
			}
			first = i
		}
		return nil
	},
	"a version that is too small": func(_ *rand.Rand, h History) History {
		for i := len(h) - 1; i >= 0; i-- {
			if op := &h[i]; op.isWrite() && !op.Version.IsZero() && slices.ContainsFunc(h[:i], func(before Op) bool {
				return before.Process == op.Process && before.isWrite() && !before.Version.IsZero()
			}) {
				op.Version = causal.Version{HLC: 0, Origin: 77}
				return h
			}
		}
		return nil
	},
	"the greatest write lost": func(_ *rand.Rand, h History) History {
		at := slices.IndexFunc(h, func(op Op) bool { return op.Final })
		if !slices.ContainsFunc(h, func(op Op) bool { return !op.Version.IsZero() }) {
			return nil // without versions it may have lost against a concurrent one
		}
		return slices.Insert(h, at, Op{Session: "late", Kind: Put, Key: h[at].Key, Value: "late", OK: true,
			Version: causal.Version{HLC: 1 << 40, Origin: 9}})
	},
}

func onGet(r *rand.Rand, h History, change func(i int) bool) History {
	for _, i := range r.Perm(len(h)) {
		if h[i].Kind == Get && h[i].OK && change(i) {
			return h
		}
	}
	return nil
}

func deletes(h History, key string) bool {
	return slices.ContainsFunc(h, func(op Op) bool { return op.Kind == Delete && op.Key == key })
}

func mutate(name string, seed uint64) History {
	return mutations[name](rand.New(rand.NewPCG(seed, 3)), modelHistory(seed, ""))
}

func TestErrorInACorrectHistoryIsDetected(t *testing.T) {
	for name := range mutations {
		t.Run(name, func(t *testing.T) {
			var c Checker
			for seed, done := uint64(0), 0; done < 100; seed++ {
				if seed == 3000 {
					t.Fatalf("only %d places for this error in %d histories", done, seed)
				}
				h := mutate(name, seed)
				if h == nil {
					continue
				}
				done++
				if r := c.Check(h, Options{}); r.OK() {
					t.Fatalf("seed %d: accepted\n%s", seed, show(h))
				}
			}
		})
	}
}

func TestShortenKeepsTheViolationAndLittleElse(t *testing.T) {
	longest := 0
	for name := range mutations {
		for seed := range uint64(100) {
			h := mutate(name, seed)
			if h == nil {
				continue
			}
			for _, v := range Check(h, Options{}).Violations {
				short := Shorten(h, v)
				if !Check(short, Options{}).Has(v.Kind) {
					t.Fatalf("%s, seed %d: %v\nis lost in\n%s", name, seed, v, show(short))
				}
				longest = max(longest, len(short))
			}
		}
	}
	t.Logf("the longest has %d operations", longest)
	if longest > 14 {
		t.Errorf("a history was only shortened to %d operations", longest)
	}
}

func TestShortenDoesNotCreateViolations(t *testing.T) {
	// s1's read is fine because of the delete; s2's is not. Without the delete both would look wrong.
	h := parse(t, "s1 put x=1; s3 del x; s1 get x=-; s2 put y=1; s2 get y=-")
	short := Shorten(h, Check(h, Options{}).Violations[0])
	if len(short) != 2 || short[0].Key != "y" {
		t.Fatalf("got\n%s", show(short))
	}
}
