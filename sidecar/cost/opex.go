package cost

import "fmt"

// Bandwidth is what crosses between data centres for one operation, on average over gets and puts.
type Bandwidth struct {
	// Bytes for the copies of puts, and for gets that another data centre answers.
	PutBytes float64 `json:"putBytes"`
	GetBytes float64 `json:"getBytes"`
	// Price of those bytes for 10^9 operations.
	PutPrice float64 `json:"putPrice"`
	GetPrice float64 `json:"getPrice"`
}

// Bytes of puts and gets together.
func (b Bandwidth) Bytes() float64 { return b.PutBytes + b.GetBytes }

// Price of puts and gets together, for 10^9 operations.
func (b Bandwidth) Price() float64 { return b.PutPrice + b.GetPrice }

// SavedBytes is the share of the bytes of full that b does without.
func (b Bandwidth) SavedBytes(full Bandwidth) float64 { return saved(b.Bytes(), full.Bytes()) }

// SavedPrice is the share of the price of full that b does without.
func (b Bandwidth) SavedPrice(full Bandwidth) float64 { return saved(b.Price(), full.Price()) }

// saved is 0 where nothing could be saved.
func saved(now, full float64) float64 {
	if full == 0 {
		return 0
	}
	return 1 - now/full
}

// Rings returns the traffic between data centres with these rings. A put goes to the key's owner in every ring; that costs
// nothing where the owner is in the data centre of the writer. A get goes where Answers says.
func (s *Scenario) Rings(l Layout, putFraction float64) Bandwidth {
	var b Bandwidth
	owns := s.Owners(l)
	for from, d := range s.DCs {
		answers := s.Answers(l, from)
		puts, gets := d.Writes*putFraction, d.Reads*(1-putFraction)
		for to := range s.DCs {
			if to == from {
				continue
			}
			b.PutBytes += puts * owns[to] * s.PutBytes
			b.PutPrice += puts * owns[to] * s.PutBytes * s.Price[from][to]
			b.GetBytes += gets * answers[to] * s.GetBytes
			b.GetPrice += gets * answers[to] * s.GetBytes * s.Price[to][from] // the answer is what has the bytes
		}
	}
	return b
}

// Full returns the traffic of full replication: every put goes to every other data centre, and every get is local.
func (s *Scenario) Full(putFraction float64) Bandwidth {
	return s.Rings(s.FullReplication(), putFraction)
}

// secondsPerMonth is that of a mean month.
const secondsPerMonth = 365.25 * 24 * 3600 / 12

// PerMonth turns what is per 10^9 operations, or GB of bytes per operation, into what it is per month at the rate of the
// scenario. It is 0 if the rate is not known.
func (s *Scenario) PerMonth(perBillion float64) float64 {
	return perBillion * s.OperationsPerSecond * secondsPerMonth / 1e9
}

// Month writes the traffic of a month, with its price if prices differ.
func (s *Scenario) Month(b Bandwidth) string {
	gb := fmt.Sprintf("%.1f GB", s.PerMonth(b.Bytes()))
	if s.PricesAreAlike() {
		return gb
	}
	return fmt.Sprintf("%s for %.2f", gb, s.PerMonth(b.Price()))
}
