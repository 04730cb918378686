package cost

import (
	"fmt"
	"math"
)

// traffic sets the shares of gets and puts: from rates if there are any, else from users, else evenly.
func (f *File) traffic(s *Scenario) error {
	users, rates, err := f.trafficGiven()
	if err != nil {
		return err
	}
	reads, writes := 0.0, 0.0
	for i, d := range f.DataCenters {
		dc := &s.DCs[i]
		dc.MissRatio = or(d.MissRatio, or(f.MissRatio, DefaultMissRatio))
		switch {
		case rates:
			dc.Reads, dc.Writes = or(d.ReadsPerSecond, 0), or(d.WritesPerSecond, 0)
		case users:
			dc.Reads, dc.Writes = or(d.Users, 0), or(d.Users, 0)
		default:
			dc.Reads, dc.Writes = 1, 1
		}
		reads, writes = reads+dc.Reads, writes+dc.Writes
	}
	if reads+writes == 0 {
		return fmt.Errorf(
			"there is no traffic: give at least one data center users, or readsPerSecond and writesPerSecond, above 0")
	}
	if rates {
		s.OperationsPerSecond = reads + writes
		if f.PutFraction == nil {
			s.PutFraction = writes / (reads + writes)
		}
	}
	for i := range s.DCs {
		s.DCs[i].Reads, s.DCs[i].Writes = share(s.DCs[i].Reads, reads, len(s.DCs)),
			share(s.DCs[i].Writes, writes, len(s.DCs))
	}
	return nil
}

// share distributes evenly if there is nothing to share: then it does not matter.
func share(part, all float64, n int) float64 {
	if all == 0 {
		return 1 / float64(n)
	}
	return part / all
}

func (f *File) trafficGiven() (users, rates bool, err error) {
	for _, d := range f.DataCenters {
		for _, v := range []struct {
			field string
			value *float64
		}{{"users", d.Users}, {"readsPerSecond", d.ReadsPerSecond}, {"writesPerSecond", d.WritesPerSecond}} {
			if v.value != nil && (*v.value < 0 || math.IsInf(*v.value, 0) || math.IsNaN(*v.value)) {
				return false, false, fmt.Errorf("%s of data center %q is %g; it must not be negative", v.field,
					d.Name, *v.value)
			}
		}
		if m := d.MissRatio; m != nil && !(*m >= 0 && *m <= 1) {
			return false, false,
				fmt.Errorf("missRatio of data center %q is %g; it is a share and must be between 0 and 1", d.Name, *m)
		}
		users = users || d.Users != nil
		rates = rates || d.ReadsPerSecond != nil || d.WritesPerSecond != nil
	}
	if rates {
		for _, d := range f.DataCenters {
			if (d.ReadsPerSecond == nil) != (d.WritesPerSecond == nil) {
				return false, false,
					fmt.Errorf(
						"data center %q has only one of readsPerSecond and writesPerSecond; give both, 0 if "+
							"there are none",
						d.Name)
			}
			if d.ReadsPerSecond == nil && d.Users != nil {
				return false, false,
					fmt.Errorf(
						"data center %q has users, but others have readsPerSecond and writesPerSecond; use "+
							"the same for all",
						d.Name)
			}
		}
	}
	return users, rates, nil
}

// prices sets the price of every direction of every pair.
func (f *File) prices(s *Scenario) error {
	index := make(map[string]int, len(s.DCs))
	for i, d := range s.DCs {
		index[d.Name] = i
	}
	standard := or(f.DefaultPricePerGB, 1)
	if !(standard >= 0) || math.IsInf(standard, 0) {
		return fmt.Errorf("defaultPricePerGB is %g; it must not be negative", standard)
	}
	given := make([][]bool, len(s.DCs))
	s.Price = make([][]float64, len(s.DCs))
	for i := range s.Price {
		s.Price[i], given[i] = make([]float64, len(s.DCs)), make([]bool, len(s.DCs))
	}
	for from, row := range f.PricePerGB {
		for to, price := range row {
			a, okA := index[from]
			b, okB := index[to]
			if !okA || !okB && to != "*" {
				return fmt.Errorf(
					"pricePerGB has a price from %q to %q; use names that dataCenters lists, or * as the destination",
					from, to)
			}
			if !(price >= 0) || math.IsInf(price, 0) || to != "*" && a == b {
				return fmt.Errorf(
					"pricePerGB is %g from %q to %q; it must not be negative, and be between two different data "+
						"centers", price, from, to)
			}
			if to != "*" {
				s.Price[a][b], given[a][b] = price, true
			}
		}
	}
	for a := range s.DCs {
		rest, hasRest := f.PricePerGB[s.DCs[a].Name]["*"]
		for b := range s.DCs {
			switch {
			case a == b || given[a][b]:
			case hasRest:
				s.Price[a][b] = rest
			case given[b][a]:
				s.Price[a][b] = s.Price[b][a]
			default:
				s.Price[a][b] = standard
			}
		}
	}
	return nil
}

// PricesAreAlike reports whether every direction of every pair has the same price, so that bytes are all that counts.
func (s *Scenario) PricesAreAlike() bool {
	for a := range s.Price {
		for b := range s.Price {
			if a != b && s.Price[a][b] != s.Price[0][1] {
				return false
			}
		}
	}
	return true
}
