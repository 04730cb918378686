package load

import (
	"fmt"
	"strings"
)

// ycsbExponent is the exponent of YCSB's distributions.
const ycsbExponent = 0.99

// ycsb returns one of YCSB's core workloads: B. F. Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC
// 2010. Proportions and distributions are those of the files workloads/workloada to workloadf in its repository. A
// record of ten fields of 100 bytes is one value of 1000 bytes here.
func ycsb(name string) (*Workload, error) {
	w := &Workload{
		Name:   name,
		Keys:   Keys{Count: 10_000, Bytes: 23, Distribution: Scrambled, Exponent: ycsbExponent},
		Values: Values{Bytes: 1000},
	}
	switch strings.TrimPrefix(name, "ycsb-") {
	case "a":
		w.Operations = map[string]float64{"get": 0.5, "set": 0.5}
	case "b":
		w.Operations = map[string]float64{"get": 0.95, "set": 0.05}
	case "c":
		w.Operations = map[string]float64{"get": 1}
	case "d":
		w.Operations = map[string]float64{"get": 0.95, "insert": 0.05}
		w.Keys.Distribution = Latest
	case "e":
		w.Operations = map[string]float64{"mget": 0.95, "insert": 0.05}
		w.MGet = MGetKeys{Min: 1, Max: 100, Consecutive: true}
	case "f":
		w.Operations = map[string]float64{"get": 0.5, "rmw": 0.5}
	default:
		return nil, fmt.Errorf("workload %q: the YCSB workloads are ycsb-a, ycsb-b, ycsb-c, ycsb-d, ycsb-e and ycsb-f",
			name)
	}
	return w, nil
}
