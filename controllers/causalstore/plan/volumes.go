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
// StatefulSet are immutable, so it is recreated around its pods if one grows or is added; existing claims grow in
// place.
func planGrowth(apply []client.Object, in Observed) (recreate []string, grow []ClaimSize) {
	for _, o := range apply {
		want, ok := o.(*appsv1.StatefulSet)
		if !ok {
			continue
		}
		is := findStatefulSet(in.StatefulSets, want.Name)
		for _, template := range want.Spec.VolumeClaimTemplates {
			size := storageRequest(template)
			if is != nil && needsRecreation(is, template.Name, size) && !slices.Contains(recreate, want.Name) {
				recreate = append(recreate, want.Name)
			}
			for _, c := range in.Claims {
				if was := storageRequest(c); isClaimOfTemplate(c.Name, template.Name, want.Name) && size.Cmp(was) > 0 {
					grow = append(grow, ClaimSize{c.Name, size})
				}
			}
		}
	}
	return recreate, grow
}

// needsRecreation reports whether a StatefulSet lacks a claim template, or has it with a smaller size.
func needsRecreation(s *appsv1.StatefulSet, template string, size resource.Quantity) bool {
	i := slices.IndexFunc(s.Spec.VolumeClaimTemplates, func(c corev1.PersistentVolumeClaim) bool {
		return c.Name == template
	})
	return i < 0 || size.Cmp(storageRequest(s.Spec.VolumeClaimTemplates[i])) > 0
}

// abandonedClaims returns the claims of shards, coordinators and members that have left: those of StatefulSets that are
// planned no longer, or with fewer replicas. Without a record it is unknown whether they have left.
func abandonedClaims(apply []client.Object, in Observed) (claims []string) {
	for i := range in.StatefulSets {
		s := &in.StatefulSets[i]
		replicas := int32(0)
		for _, o := range apply {
			if planned, ok := o.(*appsv1.StatefulSet); ok && planned.Name == s.Name {
				replicas = *planned.Spec.Replicas
			}
		}
		if in.Record == nil || s.Spec.Replicas == nil {
			continue
		}
		for n := replicas; n < *s.Spec.Replicas; n++ {
			for _, template := range s.Spec.VolumeClaimTemplates {
				name := fmt.Sprintf("%s-%s-%d", template.Name, s.Name, n)
				if slices.ContainsFunc(in.Claims, func(c corev1.PersistentVolumeClaim) bool {
					return c.Name == name && c.DeletionTimestamp == nil
				}) {
					claims = append(claims, name)
				}
			}
		}
	}
	return claims
}

func storageRequest(c corev1.PersistentVolumeClaim) resource.Quantity {
	return c.Spec.Resources.Requests[corev1.ResourceStorage]
}

// The claim templates: of the data, and of the log of a member of a shard.
const (
	dataClaim = "data"
	logClaim  = "log"
)

// isClaimOf reports whether a claim is one of a StatefulSet.
func isClaimOf(claim, set string) bool {
	return isClaimOfTemplate(claim, dataClaim, set) || isClaimOfTemplate(claim, logClaim, set)
}

// isClaimOfTemplate reports whether a claim is one that a StatefulSet has made of a template. Such claims are called
// TEMPLATE-SET-NUMBER.
func isClaimOfTemplate(claim, template, set string) bool {
	number, ok := strings.CutPrefix(claim, template+"-"+set+"-")
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}
