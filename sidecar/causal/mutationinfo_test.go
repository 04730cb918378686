package causal

import "testing"

func TestEveryFaultIsDescribedOnce(t *testing.T) {
	if len(mutationInfos) != int(mutationEnd) {
		t.Fatalf("%d mutations are described, and there are %d: each has a row in one of the files mutation_*.go",
			len(mutationInfos), mutationEnd)
	}
	names := map[string]bool{}
	for i := range mutationInfos {
		s := &mutationInfos[i]
		if s.Mutation != Mutation(i) {
			t.Fatalf("%s is described twice, or the mutation before it is not", s.Name)
		}
		if names[s.Name] || s.Name == "" || s.Part == "" || s.What == "" || s.rules == "" || s.Profile == "" {
			t.Errorf("%+v lacks something, or another mutation has its name", *s)
		}
		names[s.Name] = true
	}
}
