package kubectl

import (
	"bytes"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// giveMembers gives the coordinators of virginia two members and an etcd, of whose pods one is in a zone of its own.
func giveMembers(w *fixture) {
	dc := &w.store.Spec.DataCenters[0]
	dc.Coordinators.Members, dc.Etcd.Zones = 2, []string{"us-a", "us-b", "us-x"}
	for i := range w.store.Status.DataCenters {
		if d := &w.store.Status.DataCenters[i]; d.Name == dc.Name {
			d.Groups = groupsOfVirginia()
		}
	}
	if len(w.store.Status.DataCenters) == 0 {
		w.store.Status.DataCenters = []v1alpha1.DataCenterStatus{{Name: dc.Name, Region: dc.Region, Here: true,
			Groups: groupsOfVirginia()}}
	}
	for i, zone := range []string{dc.Zones.Frontend[0], dc.Zones.Backend[0], "us-x", ""} {
		p := corev1.Pod{Spec: corev1.PodSpec{NodeName: "node-" + zone}}
		p.Name, p.Namespace = "orders-virginia-etcd-"+string(rune('0'+i)), "shop"
		p.Labels = plan.Labels(w.store.Name)
		p.Labels[plan.LabelDataCenter], p.Labels[plan.LabelComponent], p.Labels[appsv1.PodIndexLabel] = dc.Name,
			plan.ComponentEtcd, string(rune('0'+i))
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if zone == "" {
			p.Spec.NodeName, p.Status.Conditions[0].Status = "", corev1.ConditionFalse
		} else {
			w.zoneOf[p.Spec.NodeName] = zone
		}
		w.parts = append(w.parts, p)
	}
}

func groupsOfVirginia() []v1alpha1.GroupStatus {
	return []v1alpha1.GroupStatus{
		{Part: "coordinator", Index: 0, Epoch: 4, Primary: 1, Wanted: 2, Members: []int32{1, 2}},
		{Part: "coordinator", Index: 1, Epoch: 7, Primary: 2, Wanted: 2, Members: []int32{2},
			Problem: "frozen: the register is another one",
			Behind: []v1alpha1.GroupMemberStatus{{Member: 1, State: "joining", BehindRecords: 1200,
				BehindBytes: 340000}}},
	}
}

func TestStatusAndTopologyShowGroups(t *testing.T) {
	w := newFixture(t)
	giveMembers(w)
	var out bytes.Buffer
	if err := writeTopology(&out, topologyView{store: w.store, now: testTime, zoneOf: w.zoneOf,
		parts: w.parts}); err != nil {
		t.Fatal(err)
	}
	golden(t, "topology-groups", out.String())
	out.Reset()
	if err := append(table{groupColumns}, groupRows(w.store)...).write(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "groups", out.String())
	out.Reset()
	if err := writeStatus(&out, w.store, storePods{parts: w.parts}, testTime); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "coordinator 1 of virginia") {
		t.Errorf("status does not show groups:\n%s", out.String())
	}
}
