package causalstore_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// bind binds a claim to a volume that can be used in one zone only.
func (k *cluster) bind(claim, zone string) {
	k.t.Helper()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: k.namespace + "-" + claim}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: claim}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}}}}}}
	k.create(v)
	c := &corev1.PersistentVolumeClaim{}
	k.get(claim, c)
	c.Spec.VolumeName = v.Name
	if err := k.client.Update(k.t.Context(), c); err != nil {
		k.t.Fatal(err)
	}
}

func TestAZoneThatHasAVolumeCannotBeLeft(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.bind("data-try-here-shard-0-0", "zone-b")
	before := k.uids()
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Zones.Backend = []string{"zone-c"} })
	c := k.awaitCondition("try", v1alpha1.ConditionTopologyValid, no, v1alpha1.ReasonTopologyChanged)
	if !strings.Contains(c.Message, "zones.backend of here must keep zone-b, because the volume of claim data-try-here-shard-0-0 can be used only there") {
		t.Errorf("message: %s", c.Message)
	}
	if d := cmp.Diff(before, k.uids()); d != "" {
		t.Errorf("pods restarted:\n%s", d)
	}
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Zones.Backend = []string{"zone-c", "zone-b"} })
	k.awaitCondition("try", v1alpha1.ConditionTopologyValid, yes, v1alpha1.ReasonTopologyAccepted)
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
}
