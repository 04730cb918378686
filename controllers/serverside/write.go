// Package serverside writes objects by server-side apply, which keeps the fields that others have set.
package serverside

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Write creates an object, or changes the live one, which the caller has found to be its own. Server-side apply alone
// would take over whatever has the name at that moment. So an object that does not exist is created, which fails if
// somebody else was faster, and a live one is named by its UID, so that another one in its place is not touched.
func Write(ctx context.Context, c client.Client, u *unstructured.Unstructured, live client.Object, owner string) error {
	var err error
	if live == nil {
		err = c.Create(ctx, u, client.FieldOwner(owner))
	} else {
		u.SetUID(live.GetUID())
		err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(owner),
			client.ForceOwnership)
	}
	if err != nil {
		return err
	}
	// Fields that a creation has set belong to it, and would stay when a later apply leaves them out.
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(u, sets.New(owner), owner)
	if err != nil || len(patch) == 0 {
		return err
	}
	return c.Patch(ctx, u, client.RawPatch(types.JSONPatchType, patch))
}
