package plan

import (
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

func request(c corev1.PersistentVolumeClaim) resource.Quantity {
	return c.Spec.Resources.Requests[corev1.ResourceStorage]
}

// claimOf: claims are called TEMPLATE-SET-NUMBER.
func claimOf(claim, set string) bool {
	number, ok := strings.CutPrefix(claim, "data-"+set+"-")
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}
