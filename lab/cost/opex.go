package cost

import "fmt"

// Bandwidth is what is sent between data centers per operation, averaged over gets and puts.
type Bandwidth struct {
	// Bytes for the copies of puts, and for gets that another data center answers.
	PutBytes float64 `json:"putBytes"`
	GetBytes float64 `json:"getBytes"`
	// Price of those bytes per 10^9 operations.
	PutPrice float64 `json:"putPrice"`
	GetPrice float64 `json:"getPrice"`
}

// Bytes returns the bytes of puts and gets together.
func (b Bandwidth) Bytes() float64 { return b.PutBytes + b.GetBytes }

// Price returns the price of puts and gets together, per 10^9 operations.
func (b Bandwidth) Price() float64 { return b.PutPrice + b.GetPrice }

// SavedBytes returns the share of the bytes of full that b avoids.
func (b Bandwidth) SavedBytes(full Bandwidth) float64 { return saved(b.Bytes(), full.Bytes()) }

// SavedPrice returns the share of the price of full that b avoids.
func (b Bandwidth) SavedPrice(full Bandwidth) float64 { return saved(b.Price(), full.Price()) }

// saved is 0 where nothing can be saved.
func saved(now, full float64) float64 {
	if full == 0 {
		return 0
	}
	return 1 - now/full
}

// Rings returns the traffic between data centers with these rings. A put goes to the key's owner in every ring, which
// costs nothing if the owner is in the data center of the writer. A get goes where Answers says.
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
			b.GetPrice += gets * answers[to] * s.GetBytes * s.Price[to][from] // the bytes are in the answer
		}
	}
	return b
}

// Full returns the traffic of full replication: every put goes to every other data center, and every get is local.
func (s *Scenario) Full(putFraction float64) Bandwidth {
	return s.Rings(s.FullReplication(), putFraction)
}

// secondsPerMonth is for a mean month.
const secondsPerMonth = 365.25 * 24 * 3600 / 12

// PerMonth converts a value per 10^9 operations, or GB from bytes per operation, to a value per month at the rate of
// the scenario. It is 0 if the rate is unknown.
func (s *Scenario) PerMonth(perBillion float64) float64 {
	return perBillion * s.OperationsPerSecond * secondsPerMonth / 1e9
}

// Month formats the traffic of a month, with its price if prices differ.
func (s *Scenario) Month(b Bandwidth) string {
	gb := fmt.Sprintf("%.1f GB", s.PerMonth(b.Bytes()))
	if s.PricesAreAlike() {
		return gb
	}
	return fmt.Sprintf("%s for %.2f", gb, s.PerMonth(b.Price()))
}
