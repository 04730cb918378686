package cost

import (
	"fmt"
	"math"
)

// traffic fills in the shares of gets and puts: from rates if there are any, else from users, else alike everywhere.
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
		return fmt.Errorf("there is no traffic: give a data centre users, or readsPerSecond and writesPerSecond, above 0")
	}
	if rates {
		s.OperationsPerSecond = reads + writes
		if f.PutFraction == nil {
			s.PutFraction = writes / (reads + writes)
		}
	}
	for i := range s.DCs {
		s.DCs[i].Reads, s.DCs[i].Writes = share(s.DCs[i].Reads, reads, len(s.DCs)), share(s.DCs[i].Writes, writes, len(s.DCs))
	}
	return nil
}

// share is alike for all where there is nothing to share: then it does not matter.
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
				return false, false, fmt.Errorf("%s of data centre %q is %g; give 0 or more", v.field, d.Name, *v.value)
			}
		}
		if m := d.MissRatio; m != nil && !(*m >= 0 && *m <= 1) {
			return false, false, fmt.Errorf("missRatio of data centre %q is %g; it is a share, give a number from 0 to 1", d.Name, *m)
		}
		users = users || d.Users != nil
		rates = rates || d.ReadsPerSecond != nil || d.WritesPerSecond != nil
	}
	if rates {
		for _, d := range f.DataCenters {
			if (d.ReadsPerSecond == nil) != (d.WritesPerSecond == nil) {
				return false, false, fmt.Errorf("data centre %q has only one of readsPerSecond and writesPerSecond; give both, 0 if there are none",
					d.Name)
			}
			if d.ReadsPerSecond == nil && d.Users != nil {
				return false, false, fmt.Errorf("data centre %q has users, others have readsPerSecond and writesPerSecond; give the same for all",
					d.Name)
			}
		}
	}
	return users, rates, nil
}

// prices fills in the price of every direction of every pair.
func (f *File) prices(s *Scenario) error {
	index := make(map[string]int, len(s.DCs))
	for i, d := range s.DCs {
		index[d.Name] = i
	}
	standard := or(f.DefaultPricePerGB, 1)
	if !(standard >= 0) || math.IsInf(standard, 0) {
		return fmt.Errorf("defaultPricePerGB is %g; give 0 or more", standard)
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
				return fmt.Errorf("pricePerGB is given from %q to %q; both must be names that dataCenters lists, or * as the second", from, to)
			}
			if !(price >= 0) || math.IsInf(price, 0) || to != "*" && a == b {
				return fmt.Errorf("pricePerGB is %g from %q to %q; it must be 0 or more, between two data centres", price, from, to)
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

// PricesAreAlike reports whether every direction of every pair has the same price, so that bytes say all.
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
