package plan

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Growth is a claim that is to have more bytes.
type Growth struct {
	Claim string
	Size  resource.Quantity
}

// volumes compares what the StatefulSets ask for with what there is. A StatefulSet's own claim templates cannot be changed, so
// it is made anew around its pods; the claims that there are grow by themselves.
func volumes(apply []client.Object, in Observed) (recreate []string, grow []Growth) {
	for _, o := range apply {
		want, ok := o.(*appsv1.StatefulSet)
		if !ok || len(want.Spec.VolumeClaimTemplates) == 0 {
			continue
		}
		size := request(want.Spec.VolumeClaimTemplates[0])
		if is := find(in.StatefulSets, want.Name); is != nil && len(is.Spec.VolumeClaimTemplates) > 0 {
			if was := request(is.Spec.VolumeClaimTemplates[0]); size.Cmp(was) > 0 {
				recreate = append(recreate, want.Name)
			}
		}
		for _, c := range in.Claims {
			if was := request(c); claimOf(c.Name, want.Name) && size.Cmp(was) > 0 {
				grow = append(grow, Growth{c.Name, size})
			}
		}
	}
	return recreate, grow
}

// leftovers are the claims of shards and coordinators that have left: their StatefulSets are there, and are not planned any more, or
// with fewer replicas. Without a record nobody knows whether they have left.
func leftovers(apply []client.Object, in Observed) (drop []string) {
	for i := range in.StatefulSets {
		s := &in.StatefulSets[i]
		replicas := int32(0)
		for _, o := range apply {
			if planned, ok := o.(*appsv1.StatefulSet); ok && planned.Name == s.Name {
				replicas = *planned.Spec.Replicas
			}
		}
		if in.Record == nil || len(s.Spec.VolumeClaimTemplates) == 0 || s.Spec.Replicas == nil {
			continue
		}
		for n := replicas; n < *s.Spec.Replicas; n++ {
			gone := func(c corev1.PersistentVolumeClaim) bool {
				return c.Name == fmt.Sprintf("data-%s-%d", s.Name, n) && c.DeletionTimestamp == nil
			}
			if j := slices.IndexFunc(in.Claims, gone); j >= 0 {
				drop = append(drop, in.Claims[j].Name)
			}
		}
	}
	return drop
}

func request(c corev1.PersistentVolumeClaim) resource.Quantity {
	return c.Spec.Resources.Requests[corev1.ResourceStorage]
}

// claimOf: claims are called TEMPLATE-SET-NUMBER.
func claimOf(claim, set string) bool {
	number, ok := strings.CutPrefix(claim, "data-"+set+"-")
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}
