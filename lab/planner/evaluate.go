package planner

import (
	"github.com/causalstore/causalstore/lab/cost"
)

// evaluator scores partitions of the data centers. Both the latency and the price of a missed get are sums over the
// data centers by distance: if G(i) is the probability that no copy is among the nearest i, then the i-th nearest has
// the nearest copy with probability G(i)-G(i+1). G is the product, over the rings, of the probability that a ring's
// copy is not among them. So a partition is scored ring by ring, independently of its other rings.
type evaluator struct {
	s       *cost.Scenario
	n       int
	order   [][]int
	shards  []float64
	put     [][]float64 // score of all puts of a that go to b, if b owned every key
	bound   [][]float64 // the same for the reads of a that are bound to its ring
	steps   [][]float64 // increase of the score of the reads of a if the i-th nearest has no copy
	capex   []float64   // by number of rings
	weights Weights
	latency float64 // reference of latencies
	full    float64 // reference of prices
}

func newEvaluator(s *cost.Scenario, o Options) *evaluator {
	n := len(s.DCs)
	e := &evaluator{s: s, n: n, weights: o.Weights}
	e.latency, e.full = references(s)
	w := s.PutFraction
	for d, dc := range s.DCs {
		e.order = append(e.order, s.Order(d))
		e.shards = append(e.shards, float64(dc.Shards))
		puts, reads, bound, steps := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n-1)
		for to := range s.DCs {
			if to != d {
				puts[to] = o.Weights.Bandwidth / e.full * w * dc.Writes * s.PutBytes * s.Price[d][to]
				all := dc.Reads * (o.Weights.Bandwidth/e.full*(1-w)*s.GetBytes*s.Price[to][d] +
					o.Weights.Latency/e.latency*s.RTT[d][to])
				reads[to], bound[to] = all*(1-s.BoundReads)*dc.MissRatio, all*s.BoundReads
			}
		}
		for i := range steps {
			steps[i] = reads[e.order[d][i+1]] - reads[e.order[d][i]]
		}
		e.put, e.bound, e.steps = append(e.put, puts), append(e.bound, bound), append(e.steps, steps)
	}
	for r := range n + 1 {
		e.capex = append(e.capex, o.Weights.Capex*(1-s.Capex(r).Saving(w, o.Alpha)))
	}
	return e
}

// references returns the reference values of scores: the mean latency of a read with one copy, and the price of full
// replication. If there is no such latency or price, any value will do.
func references(s *cost.Scenario) (latency, price float64) {
	one := cost.Layout{make([]int, len(s.DCs))}
	for i := range s.DCs {
		one[0][i] = i
	}
	for d, dc := range s.DCs {
		latency += dc.Reads * s.ReadMs(one, d)
	}
	price = s.Full(s.PutFraction).Price()
	if price == 0 {
		price = s.Rings(one, s.PutFraction).Price() // there are no writes
	}
	return orOne(latency), orOne(price)
}

func orOne(v float64) float64 {
	if v == 0 {
		return 1
	}
	return v
}

// ringScore is the part of a ring in the score, regardless of the others: the puts into it, and the reads bound to it.
func (e *evaluator) ringScore(ring []int) float64 {
	all, score := 0.0, 0.0
	for _, d := range ring {
		all += e.shards[d]
	}
	for _, from := range ring {
		for _, d := range ring {
			score += e.bound[from][d] * e.shards[d] / all
		}
	}
	for from := range e.n {
		for _, d := range ring {
			score += e.put[from][d] * e.shards[d] / all
		}
	}
	return score
}

// score scores a whole layout, for the search; the exact planner sums the same by ring.
func (e *evaluator) score(l cost.Layout) float64 {
	total := e.capex[len(l)]
	ringOf, owns := make([]int, e.n), make([]float64, e.n)
	for r, ring := range l {
		total += e.ringScore(ring)
		all := 0.0
		for _, d := range ring {
			all += e.shards[d]
		}
		for _, d := range ring {
			ringOf[d], owns[d] = r, e.shards[d]/all
		}
	}
	beyond := make([]float64, len(l))
	for from := range e.n {
		for r := range beyond {
			beyond[r] = 1
		}
		none := 1.0
		for i, step := range e.steps[from] {
			d := e.order[from][i]
			r := ringOf[d]
			before := beyond[r]
			beyond[r] = before - owns[d]
			if beyond[r] < 1e-12 {
				break // the whole ring is within this distance
			}
			none *= beyond[r] / before
			total += none * step
		}
	}
	return total
}

// Evaluate returns the figures of a layout, computed by package cost.
func Evaluate(s *cost.Scenario, l cost.Layout, o Options) Figures {
	e := newEvaluator(s, o)
	full := s.Full(s.PutFraction)
	f := Figures{Rings: len(l), Bandwidth: s.Rings(l, s.PutFraction)}
	for d, dc := range s.DCs {
		f.ReadMs += dc.Reads * s.ReadMs(l, d)
		f.LocalShare += dc.Reads * s.Answers(l, d)[d]
	}
	f.SavedBytes, f.SavedPrice = f.Bandwidth.SavedBytes(full), f.Bandwidth.SavedPrice(full)
	f.SavedCapex = s.Capex(len(l)).Saving(s.PutFraction, o.Alpha)
	f.Score = o.Weights.Latency*f.ReadMs/e.latency + o.Weights.Bandwidth*f.Bandwidth.Price()/e.full +
		o.Weights.Capex*(1-f.SavedCapex)
	return f
}
