package history

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// CheckDataCenters checks what holds among the clients of each data center, if the store promises that (it is more than
// causal+): that they find one Redis there. First, each key is judged by itself, in each data center whose clients use
// it.
//
//   - Local visibility: a read that starts after a write of its data center was acknowledged returns that one or a
//     greater version, and a write then gets a greater one. This needs versions, and no search.
//
//   - Exact commands: there is an order of the operations of the data center that explains each reply as one Redis
//     would give it, and in which each operation stands between its start and its end (linearizability).
//
//   - One step: there is an order of the operations on keys that some operation has together, in which each mget and
//     each commit is one step, and each operation stands between its start and its end. It is known from the versions,
//     so it takes no search. Writes of other data centers travel one by one. A commit of unknown outcome is executed as
//     a whole if anybody has found a part of it.
//
// Each operation names its data center, and all times are of one clock. Times to live must be longer than the history.
// In a data center the writes of others, and its own of unknown outcome, may take effect at any time after their start,
// or never, but once: in between, all clients see them. Reads of a write of another data center that was in flight are
// an exception, since only clients that are bound to it see it: exact commands leave out such reads, which say so.
//
// Reads that ask for less than these promises are for the caller to leave out, and so are keys of which a data center
// changes the time to live while others use them: it writes the value that it has found there, which no reply tells.
func CheckDataCenters(h History, o DataCenterOptions) (DataCenterReport, error) {
	keys, err := accessesOf(h)
	if err != nil {
		return DataCenterReport{}, err
	}
	o.setDefaults()
	r := DataCenterReport{}
	deadline := time.Now().Add(o.Time)
	dcs := map[string]bool{}
	ordered := inOrder(keys)
	for _, all := range ordered {
		r.Operations += len(all.accesses)
		if all.merges {
			for _, dc := range all.dataCenters() {
				dcs[dc] = true
				r.Keys++
				r.checkMerging(h, all, dc, o)
			}
			continue
		}
		for _, dc := range all.dataCenters() {
			dcs[dc] = true
			r.Keys++
			r.checkVisibility(h, all, dc, o)
			if o.AddsUp && all.addsUp() {
				r.checkSums(h, all, dc, o)
			} else {
				r.checkExact(h, all, dc, o, deadline)
			}
		}
	}
	for _, dc := range slices.Sorted(maps.Keys(dcs)) {
		r.checkOneStep(h, ordered, dc, o)
	}
	r.DataCenters = len(dcs)
	return r, nil
}

// DataCenterOptions bound CheckDataCenters.
type DataCenterOptions struct {
	// MaxViolations is how many violations of each promise are explained; the others are counted. 0 means 20.
	MaxViolations int
	// KeyTime bounds the search for an order of the operations on a key in a data center, and Time all searches
	// together; 0 means 5 seconds and 2 minutes. Keys for which they do not suffice are not decided.
	KeyTime, Time time.Duration
	// AddsUp says that what several data centers add to a number is added up, as in stores with scope DataCenter. Else
	// one of two such writes replaces the other.
	AddsUp bool
}

func (o *DataCenterOptions) setDefaults() {
	o.MaxViolations = cmp.Or(o.MaxViolations, defaultMaxViolations)
	o.KeyTime, o.Time = cmp.Or(o.KeyTime, 5*time.Second), cmp.Or(o.Time, 2*time.Minute)
}

// access is an operation on one key, or one key of an mget.
type access struct {
	command
	op         int // in the history
	dc         string
	start, end int64          // end: math.MaxInt64 if the outcome is unknown
	version    causal.Version // of what was written, or else read
	found      causal.Version // of what was read; zero: it is not known
	write      int            // Commit: which of its writes it is; -1: none
	inFlight   bool
	isUpdate   bool
}

// keyAccesses are all accesses of a key, in all data centers, without those that certainly had no effect.
type keyAccesses struct {
	name     string
	accesses []access
	merges   bool // its values merge (datacenter_merging.go)
	updates  bool // it has updates
}

// inOrder returns the keys by name, those with updates first: their violations are shown before those of others.
func inOrder(keys map[string]*keyAccesses) []*keyAccesses {
	return slices.SortedFunc(maps.Values(keys), func(a, b *keyAccesses) int {
		if a.updates != b.updates {
			if a.updates {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.name, b.name)
	})
}

// dataCenters returns those whose clients have used a key with success.
func (k *keyAccesses) dataCenters() []string {
	dcs := map[string]bool{}
	for i := range k.accesses {
		if a := &k.accesses[i]; a.answered {
			dcs[a.dc] = true
		}
	}
	return slices.Sorted(maps.Keys(dcs))
}

// accessesOf sorts a history by keys.
func accessesOf(h History) (map[string]*keyAccesses, error) {
	keys := map[string]*keyAccesses{}
	of := func(name string) *keyAccesses {
		if keys[name] == nil {
			keys[name] = &keyAccesses{name: name}
		}
		return keys[name]
	}
	for i := range h {
		op := &h[i]
		if op.Kind == Token || op.Kind == Resume || !op.OK && !op.Unknown {
			continue
		}
		if op.DC == "" {
			return nil, fmt.Errorf("%s names no data center: record histories with those of all operations", op)
		}
		if op.End < op.Start {
			return nil, fmt.Errorf("%s ends before it starts", op)
		}
		a := access{op: i, dc: op.DC, start: op.Start, end: op.End, version: op.Version, inFlight: op.InFlight,
			isUpdate: op.Kind == Update, write: -1}
		if op.Unknown {
			a.end = math.MaxInt64
		}
		var err error
		switch op.Kind {
		case MGet:
			for _, r := range op.Reads {
				a.command = command{asks: whole, answered: true, reply: r.Value, isNil: r.Missing}
				a.version, a.found = r.Version, r.Version
				k := of(r.Key)
				k.accesses = append(k.accesses, a)
				k.merges = k.merges || len(r.Parts) > 0
			}
			continue
		case Commit:
			for _, c := range op.accesses(a) {
				k := of(c.key)
				k.accesses, k.merges = append(k.accesses, c.access), k.merges || c.merges
			}
			continue
		case Add:
			k := of(op.Key)
			a.answered = op.OK
			k.accesses, k.merges = append(k.accesses, a), true
			continue
		default:
			a.command, err = commandOf(op)
			if op.Kind == Get {
				a.found = op.Version
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		k := of(op.Key)
		k.accesses = append(k.accesses, a)
		k.merges, k.updates = k.merges || len(op.Parts) > 0, k.updates || op.Kind == Update
	}
	if len(keys) == 0 {
		return nil, errors.New("the history has no operation to judge")
	}
	nameUnknownCommits(h, keys)
	return keys, nil
}

// during is when an operation was in progress.
func during(op *Op) string {
	at := func(ns int64) string { return fmt.Sprintf("%.6f", float64(ns)/1e9) }
	if op.Unknown {
		return op.String() + " [from " + at(op.Start) + " s]"
	}
	return op.String() + " [" + at(op.Start) + " to " + at(op.End) + " s]"
}
