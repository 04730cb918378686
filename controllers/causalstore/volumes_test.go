package causalstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// bind binds a claim to a volume that can be used in one zone only.
func (k *cluster) bind(claim, zone string) {
	k.t.Helper()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: k.namespace + "-" + claim},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: claim},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone,
						Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}}}}}}
	k.create(v)
	c := &corev1.PersistentVolumeClaim{}
	k.get(claim, c)
	c.Spec.VolumeName = v.Name
	if err := k.client.Update(k.t.Context(), c); err != nil {
		k.t.Fatal(err)
	}
}

// lateClaims is a client that creates another claim of a coordinator after the deletion of one, as a StatefulSet
// controller may that has not noticed yet that its set is gone.
type lateClaims struct {
	client.Client
	creator client.Client
	late    []string
}

func (c *lateClaims) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	if err := c.Client.Delete(ctx, o, options...); err != nil {
		return err
	}
	const name = "data-try-here-cc-"
	if _, ok := o.(*corev1.PersistentVolumeClaim); !ok || !strings.HasPrefix(o.GetName(), name) || len(c.late) == 2 {
		return nil
	}
	late := o.DeepCopyObject().(*corev1.PersistentVolumeClaim)
	late.ObjectMeta = metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: fmt.Sprint(name, 7+len(c.late)),
		Labels: o.GetLabels()}
	c.late = append(c.late, late.Name)
	return c.creator.Create(ctx, late)
}

func TestClaimsThatAreCreatedDuringTheDeletionOfAStoreAreDeletedToo(t *testing.T) {
	k := newCluster(t)
	late := &lateClaims{creator: k.client}
	k.wrap = func(c client.Client) client.Client { late.Client = c; return late }
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) { s.Spec.DeletionPolicy = v1alpha1.DeletionDelete })
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.delete("try")
	if n := k.claims(); n > 0 || len(late.late) != 2 {
		t.Errorf("%d claims are left; created during the deletion: %q", n, late.late)
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
	if !strings.Contains(c.Message,
		"zones.backend of here must keep zone-b, because the volume of claim data-try-here-shard-0-0 can be "+
			"used only there") {
		t.Errorf("message: %s", c.Message)
	}
	if d := cmp.Diff(before, k.uids()); d != "" {
		t.Errorf("pods restarted:\n%s", d)
	}
	k.update("try", func(s *v1alpha1.CausalStore) {
		s.Spec.DataCenters[0].Zones.Backend = []string{"zone-c", "zone-b"}
	})
	k.awaitCondition("try", v1alpha1.ConditionTopologyValid, yes, v1alpha1.ReasonTopologyAccepted)
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
}
