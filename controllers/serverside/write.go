// Package serverside writes objects by server-side apply, which keeps the fields that others have set.
package serverside

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// attempts bounds how often the owner of fields is corrected while others change the object.
const attempts = 5

// Write creates an object, or changes the live one, which the caller has found to be its own. Server-side apply alone
// would take over whatever has the name at that moment. So an object that does not exist is created, which fails if
// somebody else was faster, and a live one is named by its UID, so that another one in its place is not touched.
func Write(ctx context.Context, c client.Client, u *unstructured.Unstructured, live client.Object, owner string) error {
	intended := u.DeepCopy()
	var err error
	if live == nil {
		err = c.Create(ctx, u, client.FieldOwner(owner))
	} else {
		u.SetUID(live.GetUID())
		err = apply(ctx, c, u, owner)
	}
	for i := 0; err == nil; i++ {
		var corrected bool
		if corrected, err = ownByApply(ctx, c, u, owner); corrected || !apierrors.IsConflict(err) || i == attempts {
			break
		}
		// A controller has written the status of the new object meanwhile, or somebody a label. An apply returns the
		// object as it is now.
		uid := u.GetUID()
		intended.DeepCopyInto(u)
		u.SetUID(uid)
		err = apply(ctx, c, u, owner)
	}
	return err
}

func apply(ctx context.Context, c client.Client, u *unstructured.Unstructured, owner string) error {
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(owner), client.ForceOwnership)
}

// ownByApply makes the fields that a creation has set fields of an apply: they would stay when a later apply leaves
// them out. It fails with a conflict if the object has changed.
func ownByApply(ctx context.Context, c client.Client, u *unstructured.Unstructured, owner string) (done bool,
	err error) {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(u, sets.New(owner), owner)
	if err != nil || len(patch) == 0 {
		return err == nil, err
	}
	err = c.Patch(ctx, u, client.RawPatch(types.JSONPatchType, patch))
	return err == nil, err
}
