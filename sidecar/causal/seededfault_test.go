package causal

import "testing"

func TestEveryFaultIsDescribedOnce(t *testing.T) {
	if len(seededFaults) != int(faultEnd) {
		t.Fatalf("%d faults are described, and there are %d: each has a row in one of the files fault_*.go",
			len(seededFaults), faultEnd)
	}
	names := map[string]bool{}
	for i := range seededFaults {
		s := &seededFaults[i]
		if s.Fault != Fault(i) {
			t.Fatalf("%s is described twice, or the fault before it is not", s.Name)
		}
		if names[s.Name] || s.Name == "" || s.Part == "" || s.What == "" || s.rules == "" || s.Profile == "" {
			t.Errorf("%+v lacks something, or another fault has its name", *s)
		}
		names[s.Name] = true
	}
}
