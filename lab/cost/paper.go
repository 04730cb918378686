package cost

import (
	"math"

	"github.com/causalstore/causalstore/topology"
)

// The figures of section 6.4 and the conclusion of the Karma paper, as shares. They are printed beside the model's;
// where the paper leaves an input open, one of them determines it, and the report says so.
const (
	paperMissRatio     = 0.035 // of the Twitter day
	paperYCSBMissRatio = 0.31  // of the 95-5 workload
	paperReadHeavy     = 0.05  // puts of the 95-5 workload
	paperWriteHeavy    = 0.5   // the largest share of puts in the paper

	paperCapexLow, paperCapexHigh         = 0.32, 0.43
	paperCapexWriteHeavy, paperCapexMost  = 0.50, 0.60
	paperYCSBCapexLow, paperYCSBCapexHigh = 0.08, 0.26
	paperOpexAgnostic, paperOpexAware     = 0.14, 0.31 // "over 30 %" in the section, 31 % in the conclusion
	paperEast, paperWest                  = 0.70, 0.29 // of tweets
)

// TwitterCase is one assumption about what the paper leaves open in its Twitter trace: who reads, and where misses
// happen.
type TwitterCase struct {
	Name string `json:"name"`
	// Outside is the share of reads from outside of the United States.
	Outside float64 `json:"readsOutsideUS"`
	// PutFraction and Outside are solved for, so that the model gives the paper's miss ratio and its saving with the
	// rings of section 5 (Outside only if the name does not fix it).
	PutFraction float64 `json:"putFraction"`
	// Agnostic and Aware are the model's savings with the rings of section 5 and with those by users.
	Agnostic float64 `json:"agnosticSaving"`
	Aware    float64 `json:"awareSaving"`

	Scenario *Scenario `json:"-"`
}

// agnosticRings are the rings of section 5, by delay; awareRings those of section 6.4, by users.
var (
	agnosticRings = []string{"us-east-1 us-west-1 us-west-2 eu-west-1", "ap-northeast-1 ap-southeast-1 ap-southeast-2",
		"sa-east-1"}
	awareRings = []string{"us-east-1", "us-west-1 us-west-2",
		"eu-west-1 ap-northeast-1 ap-southeast-1 ap-southeast-2 sa-east-1"}
)

// twitter is the setting of the paper: eight data centers, tweets by region. The two data centers in the West, and the
// five outside of the United States, are assumed to share the load of their region evenly.
type twitter struct {
	base            *Scenario
	agnostic, aware Layout
}

func newTwitter() (*twitter, error) {
	s, err := OfTopology(topology.Default()).Scenario()
	if err != nil {
		return nil, err
	}
	s.PutBytes, s.GetBytes, s.BoundReads = 1, 1, 0 // the paper counts copies and misses
	t := &twitter{base: s}
	if t.agnostic, err = s.LayoutOf(agnosticRings...); err != nil {
		return nil, err
	}
	if t.aware, err = s.LayoutOf(awareRings...); err != nil {
		return nil, err
	}
	for i, share := range t.regions(1 - paperEast - paperWest) {
		s.DCs[i].Writes = share
	}
	return t, nil
}

// regions distributes reads or writes over the data centers, with a given share outside of the United States.
func (t *twitter) regions(outside float64) []float64 {
	shares := make([]float64, len(t.base.DCs))
	inside := (1 - outside) / (paperEast + paperWest)
	for i, d := range t.base.DCs {
		switch d.Name {
		case "us-east-1":
			shares[i] = inside * paperEast
		case "us-west-1", "us-west-2":
			shares[i] = inside * paperWest / 2
		default:
			shares[i] = outside / float64(len(shares)-3)
		}
	}
	return shares
}

// with returns the setting with the given reads and cache misses.
func (t *twitter) with(reads, misses []float64) *Scenario {
	s := *t.base
	s.DCs = append([]DataCenter(nil), t.base.DCs...)
	for i := range s.DCs {
		s.DCs[i].Reads, s.DCs[i].MissRatio = reads[i], misses[i]
	}
	return &s
}

// firstReads follows from "every user reads each tweet from a friend exactly once": a tweet misses the cache of a data
// center if it is read there at all, and only the first time. If the number of readers in each data center is Poisson
// distributed, that is 1-exp(-mean) misses per tweet.
func (t *twitter) firstReads(outside, readsPerPut float64) *Scenario {
	reads, misses := t.regions(outside), make([]float64, len(t.base.DCs))
	for i, share := range reads {
		mean := share * readsPerPut
		misses[i] = -math.Expm1(-mean) / mean
	}
	return t.with(reads, misses)
}

// remote is the share of gets that another data center answers with the rings of section 5: the paper's miss ratio.
func (t *twitter) remote(s *Scenario) float64 { return s.Rings(t.agnostic, 0).GetBytes }

func (t *twitter) saving(s *Scenario, l Layout, putFraction float64) float64 {
	return s.Rings(l, putFraction).SavedBytes(s.Full(putFraction))
}

// fromFirstReads solves for reads per put from the miss ratio, and for the readers outside from the paper's saving with
// the rings of section 5.
func (t *twitter) fromFirstReads() TwitterCase {
	setting := func(outside float64) (*Scenario, float64) {
		reads := solve(1, 1e6, func(n float64) float64 { return paperMissRatio - t.remote(t.firstReads(outside, n)) })
		return t.firstReads(outside, reads), 1 / (1 + reads)
	}
	outside := solve(1e-6, 0.9, func(x float64) float64 {
		s, w := setting(x)
		return paperOpexAgnostic - t.saving(s, t.agnostic, w)
	})
	s, w := setting(outside)
	return t.conclude("first reads of a tweet in each data center", outside, w, s)
}

// fromReads takes reads as given, with the same miss ratio in each data center, and solves for the put fraction.
func (t *twitter) fromReads(name string, reads []float64) TwitterCase {
	misses := make([]float64, len(reads))
	for i := range misses {
		misses[i] = 1
	}
	all := t.remote(t.with(reads, misses)) // remote gets if none hits a cache
	outside := 0.0
	for i := range misses {
		misses[i] = paperMissRatio / all
		if t.base.DCs[i].Writes < 0.1 {
			outside += reads[i]
		}
	}
	s := t.with(reads, misses)
	w := solve(1e-9, 1, func(w float64) float64 { return t.saving(s, t.agnostic, w) - paperOpexAgnostic })
	return t.conclude(name, outside, w, s)
}

func (t *twitter) conclude(name string, outside, w float64, s *Scenario) TwitterCase {
	s.PutFraction = w
	s.Today, s.RingNames = t.agnostic, []string{"americas-europe", "asia-pacific", "south-america"}
	return TwitterCase{Name: name, Outside: outside, PutFraction: w, Agnostic: t.saving(s, t.agnostic, w),
		Aware: t.saving(s,
			t.aware, w), Scenario: s}
}

// solve finds the zero of f, which increases, by bisection.
func solve(low, high float64, f func(float64) float64) float64 {
	for range 200 {
		middle := (low + high) / 2
		if f(middle) < 0 {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}
