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

// ClaimSize is a claim and the size that it should have.
type ClaimSize struct {
	Claim string
	Size  resource.Quantity
}

// planGrowth compares the sizes that the planned StatefulSets ask for with the present ones. The claim templates of a
// StatefulSet are immutable, so it is recreated around its pods; existing claims grow in place.
func planGrowth(apply []client.Object, in Observed) (recreate []string, grow []ClaimSize) {
	for _, o := range apply {
		want, ok := o.(*appsv1.StatefulSet)
		if !ok || len(want.Spec.VolumeClaimTemplates) == 0 {
			continue
		}
		size := storageRequest(want.Spec.VolumeClaimTemplates[0])
		if is := findStatefulSet(in.StatefulSets, want.Name); is != nil && len(is.Spec.VolumeClaimTemplates) > 0 {
			if was := storageRequest(is.Spec.VolumeClaimTemplates[0]); size.Cmp(was) > 0 {
				recreate = append(recreate, want.Name)
			}
		}
		for _, c := range in.Claims {
			if was := storageRequest(c); isClaimOf(c.Name, want.Name) && size.Cmp(was) > 0 {
				grow = append(grow, ClaimSize{c.Name, size})
			}
		}
	}
	return recreate, grow
}

// abandonedClaims returns the claims of shards and coordinators that have left: those of StatefulSets that are planned
// no longer, or with fewer replicas. Without a record it is unknown whether they have left.
func abandonedClaims(apply []client.Object, in Observed) (claims []string) {
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
			abandoned := func(c corev1.PersistentVolumeClaim) bool {
				return c.Name == fmt.Sprintf("data-%s-%d", s.Name, n) && c.DeletionTimestamp == nil
			}
			if j := slices.IndexFunc(in.Claims, abandoned); j >= 0 {
				claims = append(claims, in.Claims[j].Name)
			}
		}
	}
	return claims
}

func storageRequest(c corev1.PersistentVolumeClaim) resource.Quantity {
	return c.Spec.Resources.Requests[corev1.ResourceStorage]
}

// isClaimOf reports whether a claim is one of a StatefulSet. Such claims are called TEMPLATE-SET-NUMBER.
func isClaimOf(claim, set string) bool {
	number, ok := strings.CutPrefix(claim, "data-"+set+"-")
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}
