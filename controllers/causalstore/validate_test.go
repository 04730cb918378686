package causalstore

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// In a cluster where the rules of the CRD are missing, a bad spec reaches the operator.
func TestTheOperatorRefusesWhatTheCRDRefuses(t *testing.T) {
	s := &v1alpha1.CausalStore{}
	s.Name = "s"
	s.Spec = v1alpha1.CausalStoreSpec{Consistency: v1alpha1.Consistency{Default: v1alpha1.LevelCausal},
		Storage: v1alpha1.Storage{Engine: v1alpha1.EngineEmbedded, Replicas: 1, Volume: v1alpha1.Volume{Size: "1Gi"}},
		DataCenters: []v1alpha1.DataCenter{{Name: "a", Region: "r", Shards: 2,
			Zones: v1alpha1.Zones{Frontend: []string{"x"},
				Backend: []string{"y"}},
			Coordinators: v1alpha1.Coordinators{Replicas: 1,
				Volume: v1alpha1.Volume{Size: "1Gi"}}, Caches: v1alpha1.Caches{Memory: "1Gi"}}},
		Rings: []v1alpha1.Ring{{Name: "q", DataCenters: []string{"a"}}}}
	seen := &status.Observed{Observed: plan.Observed{Store: s}}
	if refused, forbidden := validate(seen, v1alpha1.Limits{}); len(refused)+len(forbidden) > 0 {
		t.Fatalf("a good spec: %v %v", refused, forbidden)
	}
	carriedOut, err := json.Marshal(s.Spec)
	if err != nil {
		t.Fatal(err)
	}
	seen.Record = &plan.Record{Epoch: 1, Spec: string(carriedOut)}
	s.Spec.DataCenters[0].Shards, s.Spec.DataCenters[0].Coordinators.Replicas = 3, 16
	if refused, forbidden := validate(seen, v1alpha1.Limits{}); len(refused)+len(forbidden) > 0 {
		t.Errorf("other numbers of shards and coordinators: %v %v", refused, forbidden)
	}
	s.Spec.DataCenters[0].Coordinators.Replicas = 17
	if refused, _ := validate(seen, v1alpha1.Limits{}); len(refused) != 1 ||
		!strings.Contains(refused[0], "at most 16 coordinators") {
		t.Errorf("too many coordinators: %v", refused)
	}
	s.Spec.DataCenters[0].Coordinators.Replicas = 16
	s.Spec.Binding = v1alpha1.BindingStatic
	if _, forbidden := validate(seen, v1alpha1.Limits{}); len(forbidden) != 0 {
		t.Errorf("another binding of a store without a volume: %v", forbidden)
	}
	seen.Record, seen.HasVolumes = &plan.Record{Epoch: 1, Spec: string(carriedOut)}, true
	if _, forbidden := validate(seen, v1alpha1.Limits{}); len(forbidden) != 2 ||
		!strings.Contains(forbidden[0], "spec.binding: cannot be changed") {
		t.Errorf("another binding: %v", forbidden)
	}
	s.Spec.DataCenters[0].Zones.Backend = []string{"x"}
	if refused, _ := validate(seen, v1alpha1.Limits{}); len(refused) != 1 ||
		!strings.Contains(refused[0], "x is in both") {
		t.Errorf("a zone in both: %v", refused)
	}
}

// An exclusion that admission refuses does not reach the parts either, and the advice is not to give the data up.
func TestTheOperatorRefusesAnExclusionWithoutAMajority(t *testing.T) {
	s := &v1alpha1.CausalStore{}
	s.Spec.DataCenters = []v1alpha1.DataCenter{{Name: "a"}, {Name: "b"}}
	s.Spec.Rings = []v1alpha1.Ring{{Name: "one", DataCenters: []string{"a"}}, {Name: "two", DataCenters: []string{"b"}}}
	carriedOut, err := json.Marshal(s.Spec)
	if err != nil {
		t.Fatal(err)
	}
	seen := &status.Observed{Observed: plan.Observed{Store: s, Record: &plan.Record{Epoch: 1, Spec: string(carriedOut)},
		HasVolumes: true}}
	s.Spec.DataCenters[1].Exclusions = 1
	if _, forbidden := validate(seen, v1alpha1.Limits{}); len(forbidden) != 1 ||
		!strings.Contains(forbidden[0], "exclusions leaves too few rings") {
		t.Errorf("one of two, without a tie-breaker: %v", forbidden)
	}
	s.Spec.TieBreaker = "a"
	if _, forbidden := validate(seen, v1alpha1.Limits{}); len(forbidden) != 0 {
		t.Errorf("by the tie-breaker: %v", forbidden)
	}
	s.Spec.TieBreaker, s.Spec.DataCenters[1].ForceExclusion = "", 1
	if _, forbidden := validate(seen, v1alpha1.Limits{}); len(forbidden) != 0 {
		t.Errorf("by force: %v", forbidden)
	}
}

// The limits of the operator also hold where the admission policy of the chart is missing.
func TestTheOperatorRefusesWhatItsLimitsForbid(t *testing.T) {
	s := &v1alpha1.CausalStore{}
	s.Name = "s"
	s.Spec.Image, s.Spec.ZoneLabel = "docker.io/other/image:v1", "topology.kubernetes.io/zone"
	seen := &status.Observed{Observed: plan.Observed{Store: s, Region: "r"}}
	has := func(limits v1alpha1.Limits) bool {
		refused, _ := validate(seen, limits)
		return strings.Contains(strings.Join(refused, "; "),
			"spec.image: docker.io/other/image:v1 is not allowed; this operator allows registry.example.com/")
	}
	if !has(v1alpha1.Limits{Images: []string{"registry.example.com/"}}) {
		t.Error("an image that is not allowed is accepted")
	}
	if has(v1alpha1.Limits{}) {
		t.Error("without limits an image is refused")
	}
}
