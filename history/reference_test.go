package history

import (
	"sort"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// reference decides a history the plain way: relations as matrices, closure in O(n^3), each rule as the package
// comment states it. It shares no code with the checker.
type reference struct {
	h      History
	before [][]bool // happens-before
	base   [][]bool // base[r][a]: a happens before r without what r itself reads
	ver    []causal.Version
	kinds  map[Kind]bool
	reads  []refRead
	stale  map[int]bool // index into reads
}

type refRead struct {
	op, at  int
	key     string
	missing bool
	value   string
	version causal.Version
	write   int
	thin    bool
}

func (r *reference) chained(i int) bool   { return r.h[i].OK }
func (r *reference) effective(i int) bool { return r.h[i].isWrite() && (r.h[i].OK || r.h[i].Unknown) }
func (r *reference) observed(i int) bool {
	for _, x := range r.reads {
		if x.write == i {
			return true
		}
	}
	return false
}

// kindsOf returns the kinds of violation, where the names of session guarantees are folded into StaleRead and
// MissingRead.
func kindsOf(h History) map[Kind]bool {
	r := &reference{h: h, kinds: map[Kind]bool{}, ver: make([]causal.Version, len(h))}
	r.readsFrom()
	direct := r.edges()
	r.before = closure(direct, r.rf())
	for i := range h {
		if r.before[i][i] {
			r.kinds[Cycle] = true
		}
	}
	r.finals()
	r.versions()
	if r.kinds[Cycle] {
		return r.kinds
	}
	r.base = make([][]bool, len(h))
	for i := range h {
		r.base[i] = make([]bool, len(h))
		for u := range h {
			if direct[u][i] {
				r.base[i][u] = true
				for a := range h {
					r.base[i][a] = r.base[i][a] || r.before[a][u]
				}
			}
		}
	}
	r.judge()
	r.arbitration()
	return r.kinds
}

func (r *reference) readsFrom() {
	for i, op := range r.h {
		if op.isWrite() {
			r.ver[i] = op.Version
		}
		if !op.OK || !op.isRead() {
			continue
		}
		if op.Kind == Get {
			r.reads = append(r.reads, refRead{op: i, key: op.Key, missing: op.Missing, value: op.Value,
				version: op.Version, write: -1})
		}
		for j, e := range op.Reads {
			r.reads = append(r.reads, refRead{op: i, at: j, key: e.Key, missing: e.Missing, value: e.Value,
				version: e.Version, write: -1})
		}
	}
	for j := range r.reads {
		x := &r.reads[j]
		if x.missing {
			continue
		}
		for i, op := range r.h {
			if op.Kind == Put && op.Key == x.key && op.Value == x.value && r.effective(i) {
				r.take(x, i)
			}
		}
		if x.write < 0 {
			x.thin = true
			r.kinds[ThinAir] = true
		}
	}
	for j := range r.reads {
		x := &r.reads[j]
		if !x.missing || x.version.IsZero() {
			continue
		}
		exact, open := -1, []int{}
		for i := range r.h {
			if r.effective(i) && r.ver[i] == x.version {
				exact = i
			}
			if r.effective(i) && r.h[i].Kind == Delete && r.h[i].Key == x.key && r.ver[i].IsZero() {
				open = append(open, i)
			}
		}
		switch {
		case exact >= 0 && r.h[exact].Kind == Delete && r.h[exact].Key == x.key:
			r.take(x, exact)
		case exact >= 0:
			x.thin = true
			r.kinds[VersionMismatch] = true
		case len(open) == 0:
			x.thin = true
			r.kinds[ThinAir] = true
		case len(open) == 1:
			r.take(x, open[0])
		}
	}
}

func (r *reference) take(x *refRead, w int) {
	x.write = w
	if x.version.IsZero() {
		return
	}
	if r.ver[w].IsZero() {
		r.ver[w] = x.version
	} else if r.ver[w] != x.version {
		r.kinds[VersionMismatch] = true
	}
}

func matrix(n int) [][]bool {
	m := make([][]bool, n)
	for i := range m {
		m[i] = make([]bool, n)
	}
	return m
}

// edges are session order, resumption, and "final reads come last".
func (r *reference) edges() [][]bool {
	m := matrix(len(r.h))
	for a, x := range r.h {
		if !r.chained(a) {
			continue
		}
		for b, y := range r.h {
			if a == b || !y.OK && !(y.Unknown && y.isWrite()) {
				continue
			}
			sameProcess := x.process() == y.process()
			switch {
			case x.Session == y.Session && sameProcess && a < b,
				x.Session == y.Session && !sameProcess && !x.Final && !y.Final && x.End < y.Start,
				!x.Final && y.Final,
				x.Kind == Token && y.Kind == Resume && x.Token == y.Token:
				m[a][b] = true
			}
		}
	}
	return m
}

func (r *reference) rf() [][]bool {
	m := matrix(len(r.h))
	for _, x := range r.reads {
		if x.write >= 0 {
			m[x.write][x.op] = true
		}
	}
	return m
}

func closure(ms ...[][]bool) [][]bool {
	n := len(ms[0])
	c := matrix(n)
	for _, m := range ms {
		for i := range m {
			for j := range m[i] {
				c[i][j] = c[i][j] || m[i][j]
			}
		}
	}
	for k := range n {
		for i := range n {
			if c[i][k] {
				for j := range n {
					c[i][j] = c[i][j] || c[k][j]
				}
			}
		}
	}
	return c
}

func (r *reference) finals() {
	for i, x := range r.reads {
		for _, y := range r.reads[:i] {
			if !r.h[x.op].Final || !r.h[y.op].Final || x.key != y.key || x.thin || y.thin {
				continue
			}
			if x.missing != y.missing || !x.missing && x.value != y.value ||
				x.missing && !x.version.IsZero() && !y.version.IsZero() && x.version != y.version {
				r.kinds[Diverged] = true
			}
		}
	}
}

func (r *reference) versions() {
	for a := range r.h {
		for b := range r.h {
			if a == b || !r.effective(a) || !r.effective(b) || r.ver[a].IsZero() || r.ver[b].IsZero() {
				continue
			}
			if r.ver[a] == r.ver[b] {
				r.kinds[VersionReused] = true
			}
			if r.before[a][b] && r.ver[b].Less(r.ver[a]) {
				r.kinds[VersionOrder] = true
			}
		}
	}
}

func (r *reference) supersedes(b, a int) bool {
	if !r.ver[a].IsZero() && !r.ver[b].IsZero() {
		return r.ver[a].Less(r.ver[b])
	}
	return r.before[a][b]
}

// pasts returns the pasts that a read is judged by: its own, and those of the other writes that its mget returned.
func (r *reference) pasts(x refRead) (pasts [][]bool) {
	pasts = append(pasts, r.base[x.op])
	for _, y := range r.reads {
		if y.op == x.op && y.at != x.at && y.write >= 0 && y.write != x.write {
			past := make([]bool, len(r.h))
			for a := range r.h {
				past[a] = a == y.write || r.before[a][y.write]
			}
			pasts = append(pasts, past)
		}
	}
	return pasts
}

func (r *reference) judge() {
	r.stale = map[int]bool{}
	for i, x := range r.reads {
		for n, past := range r.pasts(x) {
			kind := r.judgeBy(x, past)
			r.stale[i] = r.stale[i] || kind == StaleRead
			switch {
			case kind == "":
			case n > 0:
				r.kinds[Snapshot] = true
			case r.h[x.op].Final:
				r.kinds[LostWrite] = true
			default:
				r.kinds[kind] = true
			}
		}
	}
}

func (r *reference) judgeBy(x refRead, past []bool) Kind {
	var in []int
	puts := false
	for w, op := range r.h {
		if past[w] && r.effective(w) && op.Key == x.key {
			in = append(in, w)
			puts = puts || op.Kind == Put
		}
	}
	switch {
	case x.thin:
		return ""
	case x.write >= 0 || !x.version.IsZero():
		for _, w := range in {
			if x.write >= 0 && w != x.write && r.supersedes(w, x.write) || x.write < 0 && x.version.Less(r.ver[w]) {
				return StaleRead
			}
		}
		return ""
	case !puts:
		return ""
	}
	for d, op := range r.h {
		if op.Kind != Delete || op.Key != x.key || !r.effective(d) || r.before[x.op][d] {
			continue
		}
		superseded := false
		for _, w := range in {
			superseded = superseded || w != d && r.supersedes(w, d)
		}
		if !superseded {
			return ""
		}
	}
	return MissingRead
}

// arbitration: without the conflict edges of stale reads, is there an order of all writes?
func (r *reference) arbitration() {
	m := matrix(len(r.h))
	for i, x := range r.reads {
		if x.write < 0 || r.stale[i] {
			continue
		}
		for _, past := range r.pasts(x) {
			for w, op := range r.h {
				if past[w] && w != x.write && r.effective(w) && op.Key == x.key &&
					(r.ver[w].IsZero() || r.ver[x.write].IsZero()) {
					m[w][x.write] = true
				}
			}
		}
	}
	var byVersion []int
	for w := range r.h {
		if r.effective(w) && !r.ver[w].IsZero() && (r.h[w].OK || r.observed(w)) {
			byVersion = append(byVersion, w)
		}
	}
	sort.Slice(byVersion, func(i, j int) bool { return r.ver[byVersion[i]].Less(r.ver[byVersion[j]]) })
	if !r.kinds[VersionOrder] && !r.kinds[VersionReused] {
		for i := 1; i < len(byVersion); i++ {
			m[byVersion[i-1]][byVersion[i]] = true
		}
	}
	for i, row := range closure(r.before, m) {
		if row[i] {
			r.kinds[Convergence] = true
		}
	}
}
