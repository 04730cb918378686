//go:build linux

package main

import (
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/causalstore/causalstore/e2e/apiserver"
)

// TestAVolumeIsADirectoryOnItsNodeUntilItIsDeleted plays the controller that binds claims to volumes; only an API
// server runs.
func TestAVolumeIsADirectoryOnItsNodeUntilItIsDeleted(t *testing.T) {
	client, err := kubernetes.NewForConfig(apiserver.ForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	b, ctx := newTestBed(t), t.Context()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local-folder"}, Provisioner: provisioner,
		AllowVolumeExpansion: new(true)}
	if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claims := client.CoreV1().PersistentVolumeClaims("default")
	claim, err := claims.Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data",
		Annotations: map[string]string{claimedBy: provisioner}},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: &class.Name,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			}}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	provision := func() {
		t.Helper()
		if err := b.provisionAll(ctx, client); err != nil {
			t.Fatal(err)
		}
	}
	// until provisions until done returns true: the provisioner lists from a cache of the API server, which may be
	// behind.
	until := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			provision()
			if done() {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("timed out waiting for %s", what)
			}
		}
	}
	name := volumePrefix + string(claim.UID)
	provision()
	if _, err := client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the volume exists before a node is selected (%v)", err)
	}

	claim.Annotations[selectedNode] = "node-4"
	if claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	var volume *corev1.PersistentVolume
	until("the volume", func() bool {
		volume, err = client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		return err == nil
	})
	provision() // idempotent
	dir := b.disk(b.Nodes[3], "volumes", name)
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}

	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: volume.Spec.Capacity}
	claim.Spec.VolumeName = name
	if claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: volume.Spec.Capacity}
	if claim, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("3Gi")
	if _, err = claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until("claim and volume to have 3Gi", func() bool {
		if claim, err = claims.Get(ctx, "data", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		if volume, err = client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		return claim.Status.Capacity.Storage().String() == "3Gi" && volume.Spec.Capacity.Storage().String() == "3Gi"
	})

	volume.Status.Phase = corev1.VolumeReleased
	if _, err = client.CoreV1().PersistentVolumes().UpdateStatus(ctx, volume, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until("the directory of a released volume to be removed", func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
	// A finalizer keeps the object until a controller sees that no pod uses it.
	if v, err := client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{}); err == nil &&
		v.DeletionTimestamp == nil {
		t.Error("the volume was not deleted")
	}
}
