package plan

import (
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

// leftovers are the claims of shards that have left: their StatefulSets are there, and not planned any more.
func leftovers(apply []client.Object, in Observed) (drop []string) {
	for i := range in.StatefulSets {
		s := &in.StatefulSets[i]
		planned := slices.ContainsFunc(apply, func(o client.Object) bool {
			_, ok := o.(*appsv1.StatefulSet)
			return ok && o.GetName() == s.Name
		})
		if planned || s.Labels[LabelComponent] != ComponentShard {
			continue
		}
		for j := range in.Claims {
			if c := &in.Claims[j]; claimOf(c.Name, s.Name) && c.DeletionTimestamp == nil {
				drop = append(drop, c.Name)
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
