package plan_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// zoneLabels returns the values of the labels of zones, for the pods of each component.
func zoneLabels(p plan.Plan) map[string][2]string {
	all := map[string][2]string{}
	for _, o := range p.Apply {
		if s, ok := o.(*appsv1.StatefulSet); ok {
			l := s.Spec.Template.Labels
			all[l[plan.LabelComponent]] = [2]string{l[plan.LabelZones], l[plan.LabelZone]}
		}
	}
	return all
}

func TestPodsHaveTheZoneThatTheyAreKeptInAndItsRole(t *testing.T) {
	in := observed(t, "one.yaml", "local")
	dc := &in.Store.Spec.DataCenters[0]
	dc.Zones = v1alpha1.Zones{Frontend: []string{"a"}, Backend: []string{"b", "c"}}
	got := zoneLabels(planned(t, in))
	for component, want := range map[string][2]string{plan.ComponentCoordinator: {plan.ZonesFrontend, "a"},
		plan.ComponentCache: {plan.ZonesFrontend, "a"},
		plan.ComponentShard: {plan.ZonesBackend, ""}} { // the scheduler chooses one of two
		if got[component] != want {
			t.Errorf("pods of a %s have %q, want %q", component, got[component], want)
		}
	}
	in.Store.Spec.Placement = v1alpha1.PlacementSingleZone
	for component, labels := range zoneLabels(planned(t, in)) {
		if labels != [2]string{} {
			t.Errorf("pods of a %s of a store that is kept in no zone have %q", component, labels)
		}
	}
}
