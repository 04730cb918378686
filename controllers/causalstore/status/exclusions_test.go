package status_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

func TestTheStatusSaysHowFarAnExclusionIs(t *testing.T) {
	says := func(x plan.Exclusion) map[string]plan.Measure {
		return map[string]plan.Measure{
			plan.ComponentCoordinator: {Exclusions: map[string]plan.Exclusion{"here": x, "there": x}},
		}
	}
	for _, c := range []struct {
		about, dc string
		measured  map[string]plan.Measure
		fails     bool
		want      v1alpha1.ExclusionStatus
	}{
		{"nobody answers", "there", map[string]plan.Measure{}, false,
			v1alpha1.ExclusionStatus{State: v1alpha1.ExclusionUnknown}},
		{"the coordinator does not know of it", "there", map[string]plan.Measure{plan.ComponentCoordinator: {}}, false,
			v1alpha1.ExclusionStatus{State: v1alpha1.ExclusionPending}},
		{"it goes by an earlier one", "there", says(plan.Exclusion{Applied: 1, Shards: 3}), false,
			v1alpha1.ExclusionStatus{State: v1alpha1.ExclusionPending, Shards: 3}},
		{"the last copy", "there", says(plan.Exclusion{Applied: 1, Shards: 3, LastCopy: true}), false,
			v1alpha1.ExclusionStatus{State: v1alpha1.ExclusionLastCopy, Shards: 3}},
		{"excluded", "there", says(plan.Exclusion{Applied: 2, Without: 3, Shards: 3}), false,
			v1alpha1.ExclusionStatus{State: v1alpha1.ExclusionExcluded, Applied: 1, Without: 3, Shards: 3}},
		{"back", "there", says(plan.Exclusion{Applied: 2, Shards: 3}), false,
			v1alpha1.ExclusionStatus{State: v1alpha1.ExclusionBack, Applied: 1, Shards: 3}},
		{"this one is back without data", "here", says(plan.Exclusion{Applied: 2, Shards: 1}), true,
			v1alpha1.ExclusionStatus{State: v1alpha1.ExclusionBackfilling, Applied: 1, Shards: 1}},
		{"this one is back", "here", says(plan.Exclusion{Applied: 2, Shards: 1}), false,
			v1alpha1.ExclusionStatus{State: v1alpha1.ExclusionBack, Applied: 1, Shards: 1}},
	} {
		in := one()
		in.Record = &plan.Record{Epoch: 2,
			Layout: `{"dataCenters":[{"name":"here","coordinators":1,"shards":1,"exclusions":2},{"name":"there","coordinators":1,"shards":3,"exclusions":2}]}`}
		in.Measured = c.measured
		if c.fails {
			fail(&in, plan.ComponentShard)
		}
		c.want.Count, c.want.Coordinators = 2, 1
		for _, d := range status.Of(in).DataCenters {
			if d.Name != c.dc {
				continue
			}
			if diff := cmp.Diff(&c.want, d.Exclusion); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.about, diff)
			}
		}
	}
}

// A coordinator that leaves has nothing to do with it any more, and may go by the exclusion before those that stay.
func TestACoordinatorBeyondTheWantedNumberCountsForNoExclusion(t *testing.T) {
	in := one()
	in.Record = &plan.Record{Epoch: 2,
		Layout: `{"dataCenters":[{"name":"here","coordinators":1,"shards":1},{"name":"there","coordinators":1,"shards":3,"exclusions":1}]}`}
	leaving := in.Pods[0].DeepCopy()
	leaving.Name, leaving.Labels[appsv1.PodIndexLabel] = "leaving", "1"
	in.Pods = append(in.Pods, *leaving)
	in.Measured = map[string]plan.Measure{plan.ComponentCoordinator: {},
		"leaving": {Exclusions: map[string]plan.Exclusion{"there": {Applied: 1, Without: 3, Shards: 3}}}}
	for _, d := range status.Of(in).DataCenters {
		if x := d.Exclusion; d.Name == "there" && (x.State != v1alpha1.ExclusionPending || x.Applied != 0) {
			t.Errorf("the coordinator that stays has not heard of it, and the status is %+v", x)
		}
	}
}
