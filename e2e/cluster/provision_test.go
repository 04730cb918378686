//go:build linux

package main

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/causalstore/causalstore/e2e/apiserver"
)

// TestAVolumeIsAFolderOnItsNodeFromItsClaimToItsEnd plays what binds claims and volumes, which is no part of an API server.
func TestAVolumeIsAFolderOnItsNodeFromItsClaimToItsEnd(t *testing.T) {
	client, err := kubernetes.NewForConfig(apiserver.ForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	b, ctx := newTestBed(t), t.Context()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local-folder"}, Provisioner: provisioner, AllowVolumeExpansion: new(true)}
	if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claims := client.CoreV1().PersistentVolumeClaims("default")
	claim, err := claims.Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data",
		Annotations: map[string]string{claimedBy: provisioner}},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class.Name,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}},
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
	name := volumePrefix + string(claim.UID)
	provision()
	if _, err := client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("there is a volume before there is a node for it (%v)", err)
	}

	claim.Annotations[selectedNode] = "node-4"
	if claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	provision()
	provision() // nothing is made twice
	volume, err := client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	folder := b.disk(b.Nodes[3], "volumes", name)
	if _, err := os.Stat(folder); err != nil {
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
	provision()
	claim, err = claims.Get(ctx, "data", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	volume, err = client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if has, is := claim.Status.Capacity.Storage().String(), volume.Spec.Capacity.Storage().String(); has != "3Gi" || is != "3Gi" {
		t.Errorf("the claim has %s, the volume %s, want 3Gi", has, is)
	}

	volume.Status.Phase = corev1.VolumeReleased
	if _, err = client.CoreV1().PersistentVolumes().UpdateStatus(ctx, volume, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	provision()
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the folder of a volume that is to be deleted is there (%v)", err)
	}
	// A finalizer keeps the object until somebody sees that no pod has it.
	if v, err := client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{}); err == nil && v.DeletionTimestamp == nil {
		t.Error("the volume was not deleted")
	}
}
