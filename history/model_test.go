package history

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// modelWrite is a write of the model, with all that was before it.
type modelWrite struct {
	op      int
	key     string
	deleted bool
	value   string
	version causal.Version
	origin  int
	needs   []int // per replica: how many of its writes must have been applied
}

// model is a causal memory that is right by construction: replicas that apply each other's writes in causal order, the
// greatest version winning. A session works at one replica.
type model struct {
	r        *rand.Rand
	writes   [][]*modelWrite // by origin
	applied  [][]int         // replica -> origin -> count
	state    []map[string]*modelWrite
	clock    []causal.HLC
	cut      [][]bool // links that carry nothing for a while
	versions bool
	fault    string // the rule that this memory breaks; "" for none
	now      int64
	h        History
}

func newModel(r *rand.Rand, replicas int, versions bool) *model {
	m := &model{r: r, versions: versions, writes: make([][]*modelWrite, replicas), clock: make([]causal.HLC, replicas)}
	for range replicas {
		m.applied = append(m.applied, make([]int, replicas))
		m.cut = append(m.cut, make([]bool, replicas))
		m.state = append(m.state, map[string]*modelWrite{})
	}
	return m
}

// deliver applies at replica to the next write of replica from, if all that it needs is there.
func (m *model) deliver(from, to int) bool {
	if m.applied[to][from] == len(m.writes[from]) {
		return false
	}
	w := m.writes[from][m.applied[to][from]]
	for o, n := range w.needs {
		if m.applied[to][o] < n && m.fault != "writes overtake what they depend on" {
			return false
		}
	}
	m.apply(to, w)
	return true
}

func (m *model) apply(at int, w *modelWrite) {
	m.applied[at][w.origin]++
	m.clock[at] = max(m.clock[at], w.version.HLC)
	if old := m.state[at][w.key]; old == nil || old.version.Less(w.version) || m.fault == "the last to arrive wins" {
		m.state[at][w.key] = w
	}
}

func (m *model) deliverAll() {
	for again := true; again; {
		again = false
		for from := range m.writes {
			for to := range m.state {
				for from != to && m.deliver(from, to) {
					again = true
				}
			}
		}
	}
}

func (m *model) read(at int, key string) Read {
	w := m.state[at][key]
	if w == nil {
		return Read{Key: key, Missing: true}
	}
	e := Read{Key: key, Missing: w.deleted}
	if !w.deleted {
		e.Value = w.value
	}
	if m.versions {
		e.Version = w.version
	}
	return e
}

func (m *model) write(at int, op *Op) {
	m.clock[at]++
	w := &modelWrite{op: len(m.h), key: op.Key, deleted: op.Kind == Delete, value: op.Value, origin: at,
		version: causal.Version{HLC: m.clock[at], Origin: topology.Origin(at + 1)},
		needs:   append([]int(nil), m.applied[at]...)}
	m.writes[at] = append(m.writes[at], w)
	m.apply(at, w)
	if m.versions {
		op.Version = w.version
	}
	if m.fault == "a write is acknowledged and dropped" && m.r.IntN(10) == 0 {
		delete(m.state[at], op.Key)
		m.writes[at] = m.writes[at][:len(m.writes[at])-1]
		m.applied[at][at]--
	}
}

// run makes a history of n operations by sessions spread over the replicas, then final reads.
func (m *model) run(n, sessions, procsEach, keys int) History {
	type ends struct{ start, end int64 }
	last := map[string]*ends{}
	key := func() string { return fmt.Sprintf("k%d", m.r.IntN(keys)) }
	for i := range n {
		for range 1 + m.r.IntN(5) {
			from, to := m.r.IntN(len(m.state)), m.r.IntN(len(m.state))
			if m.r.IntN(20) == 0 {
				m.cut[from][to] = !m.cut[from][to]
			}
			if !m.cut[from][to] {
				m.deliver(from, to)
			}
		}
		s := m.r.IntN(sessions)
		at := s % len(m.state)
		if m.fault == "a session reads anywhere" && m.r.IntN(4) == 0 {
			at = m.r.IntN(len(m.state))
		}
		op := Op{Session: fmt.Sprintf("s%d", s), Process: fmt.Sprintf("s%d/%d", s, m.r.IntN(procsEach)), OK: true}
		if last[op.Process] == nil {
			last[op.Process] = &ends{}
		}
		m.now += 10
		op.Start = max(m.now-int64(m.r.IntN(30)), last[op.Process].end)
		op.End = m.now + int64(m.r.IntN(5))
		*last[op.Process] = ends{op.Start, op.End}
		switch p := m.r.IntN(20); {
		case p < 8:
			op.Kind, op.Key, op.Value = Put, key(), fmt.Sprint(i)
			m.write(at, &op)
		case p < 10:
			op.Kind, op.Key = Delete, key()
			m.write(at, &op)
		case p < 17:
			op.Kind = Get
			e := m.read(at, key())
			op.Key, op.Value, op.Missing, op.Version = e.Key, e.Value, e.Missing, e.Version
		default:
			op.Kind = MGet
			for piece := range 2 {
				if piece > 0 && m.fault == "an mget is read piece by piece" {
					m.deliverAll()
				}
				op.Reads = append(op.Reads, m.read(at, key()))
			}
		}
		if op.isWrite() && m.r.IntN(10) == 0 {
			op.OK, op.Unknown, op.Version = false, true, causal.Version{}
		}
		m.h = append(m.h, op)
	}
	m.deliverAll()
	for at := range m.state {
		for k := range keys {
			e := m.read(at, fmt.Sprintf("k%d", k))
			m.now += 10
			m.h = append(m.h, Op{Session: fmt.Sprintf("check%d", at), Kind: Get, Key: e.Key, Value: e.Value,
				Missing: e.Missing,
				Version: e.Version, Start: m.now, End: m.now + 1, OK: true, Final: true})
		}
	}
	return m.h
}

func modelHistory(seed uint64, fault string) History {
	r := rand.New(rand.NewPCG(seed, 2))
	if fault != "" { // enough going on for it to show
		m := newModel(r, 4, seed%2 == 0)
		m.fault = fault
		return m.run(200, 4, 2, 2)
	}
	m := newModel(r, 1+r.IntN(4), seed%2 == 0)
	return m.run(20+r.IntN(60), 1+r.IntN(6), 1+r.IntN(2), 1+r.IntN(4))
}

func TestHistoriesOfACorrectMemoryAreAccepted(t *testing.T) {
	var c Checker
	for seed := range uint64(1500) {
		h := modelHistory(seed, "")
		if r := c.Check(h, Options{}); !r.OK() {
			t.Fatalf("seed %d: %v\n%s", seed, r, show(h))
		}
	}
}

func TestMemoryThatBreaksARuleIsDetected(t *testing.T) {
	for _, fault := range []string{"writes overtake what they depend on", "the last to arrive wins",
		"a session reads anywhere",
		"an mget is read piece by piece", "a write is acknowledged and dropped"} {
		t.Run(fault, func(t *testing.T) {
			var c Checker
			caught := [2]int{}
			for seed := range uint64(240) {
				h := modelHistory(seed, fault)
				if r := c.Check(h, Options{}); !r.OK() {
					caught[seed%2]++
				} else if seed < 40 && len(kindsOf(h)) > 0 {
					t.Fatalf("seed %d: the reference says %v\n%s", seed, kindsOf(h), show(h))
				}
			}
			t.Logf("caught in %d of 120 histories with versions, %d of 120 without", caught[0], caught[1])
			if caught[0] < 10 || caught[1] < 2 {
				t.Errorf("caught in only %d of 120 histories with versions, %d of 120 without", caught[0], caught[1])
			}
		})
	}
}
