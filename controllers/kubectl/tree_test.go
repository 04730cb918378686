package kubectl

import (
	"bytes"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

func TestTopologyDrawsATreeOfRingsDataCentersZonesAndPods(t *testing.T) {
	probed := roundTrips{"virginia": {"virginia": 400 * time.Microsecond, "oregon": 63100 * time.Microsecond,
		"paris": -1},
		"oregon": {"virginia": 62900 * time.Microsecond, "oregon": 512345}}
	for name, change := range map[string]func(*fixture, *topologyView){
		"topology": func(*fixture, *topologyView) {},
		"topology-troubled": func(w *fixture, in *topologyView) {
			lost := w.pod(t, "orders-virginia-shard-1-0")
			lost.Status.Conditions[0].Status = corev1.ConditionFalse
			lost.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "middleman",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
					Message: "back-off 10s"}}}}
			pending := w.pod(t, "orders-oregon-cache-0")
			pending.Spec.NodeName, pending.Status.Conditions[0].Status = "", corev1.ConditionFalse
			in.trips, in.unmeasured = nil, errors.New("read metrics of orders-virginia-cc-0: no route")
		},
		"topology-scale-down": func(w *fixture, in *topologyView) {
			w.pod(t, "orders-virginia-cc-1").Status.Conditions[0].Status = corev1.ConditionFalse
			w.store.Spec.DataCenters[0].Coordinators.Replicas, in.scaleDowns, in.trips = 1,
				scaleDowns{"virginia": 1}, nil
		},
		"topology-single-zone": func(w *fixture, in *topologyView) {
			w.store.Spec.Placement, in.trips = v1alpha1.PlacementSingleZone, nil
		},
		"topology-without-nodes": func(_ *fixture, in *topologyView) { in.zoneOf, in.trips = nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			in := topologyView{store: w.store, now: testTime, zoneOf: w.zoneOf, trips: probed}
			change(w, &in)
			in.parts = w.parts
			var out bytes.Buffer
			if err := writeTopology(&out, in); err != nil {
				t.Fatal(err)
			}
			golden(t, name, out.String())
		})
	}
}
