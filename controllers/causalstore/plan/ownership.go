package plan

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// Foreign returns why an existing object must not be taken for the one that is planned under its name, and what to do
// about it; it returns "" if the object is the store's. An object with an owner belongs to the store that its owner
// reference names by UID. Objects that outlive their store, the record and the keys, have no owner: they belong to the
// store if they have its labels, which whoever may write the object can add to hand it over.
func Foreign(store *v1alpha1.CausalStore, planned, live client.Object, kind string) string {
	owner := metav1.GetControllerOf(live)
	switch {
	case owner != nil && owner.UID == store.UID:
		return ""
	case owner != nil && owner.Kind == "CausalStore" && owner.Name == store.Name:
		return fmt.Sprintf(
			"%s %s belongs to a deleted store of the same name; wait until Kubernetes has deleted it, or delete it",
			kind, live.GetName())
	case owner != nil:
		return fmt.Sprintf("%s %s is owned by %s %s, so it is left alone; rename one of the two", kind, live.GetName(),
			owner.Kind, owner.Name)
	case metav1.GetControllerOf(planned) != nil:
		return fmt.Sprintf(
			"%s %s exists and was not made for this store (it has no owner reference to it), so it is left alone; "+
				"delete or rename it, or give the store another name",
			kind, live.GetName())
	case !HasLabels(store, live):
		return fmt.Sprintf(
			"%s %s exists without the labels of this store, so it is neither used nor changed; delete or rename it, "+
				"or, if it is meant for this store: kubectl -n %s label %s %s %s",
			kind, live.GetName(), store.Namespace, strings.ToLower(kind), live.GetName(), labelArguments(store))
	}
	return ""
}

// HasLabels reports whether an object has the labels of a store.
func HasLabels(store *v1alpha1.CausalStore, o client.Object) bool {
	for key, value := range Labels(store.Name) {
		if o.GetLabels()[key] != value {
			return false
		}
	}
	return true
}

func labelArguments(store *v1alpha1.CausalStore) string {
	all := Labels(store.Name)
	return fmt.Sprintf("%s=%s %s=%s %s=%s", LabelName, all[LabelName], LabelInstance, all[LabelInstance],
		LabelManagedBy, all[LabelManagedBy])
}

// IsClaimOfStore reports whether a claim with the labels of a store also has the name that its StatefulSet gives it.
func IsClaimOfStore(store string, claim client.Object) bool {
	labels := claim.GetLabels()
	dc := labels[LabelDataCenter]
	switch labels[LabelComponent] {
	case ComponentCoordinator:
		return isClaimOf(claim.GetName(), coordinatorsName(store, dc, Member(claim)))
	case ComponentEtcd:
		return isClaimOf(claim.GetName(), EtcdName(store, dc))
	case ComponentShard:
		n, err := strconv.Atoi(labels[LabelShard])
		return err == nil && isClaimOf(claim.GetName(), shardName(store, dc, n, Member(claim)))
	}
	return false
}
