//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// provisioner names the provisioner of volumes, which are directories on the disks of nodes. addons.yaml uses the name,
// too.
const provisioner = "causalstore.io/local-folder"

const (
	selectedNode = "volume.kubernetes.io/selected-node"
	claimedBy    = "volume.kubernetes.io/storage-provisioner"
	volumePrefix = "local-"
)

// provision creates volumes for claims, expands them, and removes released ones, until the context ends.
func (b *bed) provision(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", b.pki("admin.kubeconfig"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for {
		if err := b.provisionAll(ctx, client); err != nil {
			fmt.Fprintln(os.Stderr, "volumes:", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (b *bed) provisionAll(ctx context.Context, client kubernetes.Interface) error {
	claims, err := client.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	volumes, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	byName := map[string]*corev1.PersistentVolume{}
	for i := range volumes.Items {
		byName[volumes.Items[i].Name] = &volumes.Items[i]
	}
	var errs []error
	for i := range claims.Items {
		c := &claims.Items[i]
		if c.Annotations[claimedBy] != provisioner {
			continue
		}
		switch v := byName[volumePrefix+string(c.UID)]; {
		case v == nil && c.Status.Phase == corev1.ClaimPending && c.Annotations[selectedNode] != "":
			errs = append(errs, b.makeVolume(ctx, client, c))
		case v != nil && c.Status.Phase == corev1.ClaimBound:
			errs = append(errs, growVolume(ctx, client, c, v))
		}
	}
	for _, v := range byName {
		if strings.HasPrefix(v.Name, volumePrefix) && v.Status.Phase == corev1.VolumeReleased &&
			v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			errs = append(errs, b.removeVolume(ctx, client, v))
		}
	}
	return errors.Join(errs...)
}

func (b *bed) makeVolume(ctx context.Context, client kubernetes.Interface, c *corev1.PersistentVolumeClaim) error {
	_, n, err := openNode(b.dir, c.Annotations[selectedNode])
	if err != nil {
		return err
	}
	class, err := client.StorageV1().StorageClasses().Get(ctx, *c.Spec.StorageClassName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	name := volumePrefix + string(c.UID)
	if err := os.MkdirAll(b.disk(n, "volumes", name), 0o755); err != nil {
		return err
	}
	_, err = client.CoreV1().PersistentVolumes().Create(ctx, volume(name, n, c, class), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // the list was stale
	}
	return err
}

func volume(name string, n node, c *corev1.PersistentVolumeClaim,
	class *storagev1.StorageClass) *corev1.PersistentVolume {
	policy := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: c.Spec.Resources.Requests, AccessModes: c.Spec.AccessModes, StorageClassName: class.Name,
			PersistentVolumeReclaimPolicy: policy,
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1",
				Namespace: c.Namespace, Name: c.Name, UID: c.UID},
			NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname,
						Operator: corev1.NodeSelectorOpIn, Values: []string{n.Name}}}}}}},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: "/var/lib/volumes/" + name},
			},
		},
	}
}

// growVolume reports the requested capacity. A directory can hold as much as its disk, so nothing else is needed.
func growVolume(ctx context.Context, client kubernetes.Interface, c *corev1.PersistentVolumeClaim,
	v *corev1.PersistentVolume) error {
	requested, current := c.Spec.Resources.Requests[corev1.ResourceStorage], c.Status.Capacity[corev1.ResourceStorage]
	if requested.Cmp(current) <= 0 {
		return nil
	}
	v, c = v.DeepCopy(), c.DeepCopy()
	v.Spec.Capacity[corev1.ResourceStorage] = requested
	if _, err := client.CoreV1().PersistentVolumes().Update(ctx, v, metav1.UpdateOptions{}); err != nil {
		return err
	}
	c.Status.Capacity[corev1.ResourceStorage] = requested
	_, err := client.CoreV1().PersistentVolumeClaims(c.Namespace).UpdateStatus(ctx, c, metav1.UpdateOptions{})
	return err
}

func (b *bed) removeVolume(ctx context.Context, client kubernetes.Interface, v *corev1.PersistentVolume) error {
	terms := v.Spec.NodeAffinity.Required.NodeSelectorTerms
	_, n, err := openNode(b.dir, terms[0].MatchExpressions[0].Values[0])
	if err != nil {
		return err
	}
	if err := os.RemoveAll(b.disk(n, "volumes", v.Name)); err != nil {
		return err
	}
	err = client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
