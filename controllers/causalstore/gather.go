package causalstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// gather reads what exists of a store, and which data centers of other regions another operator runs here.
func (r *Reconciler) gather(ctx context.Context, store *v1alpha1.CausalStore) (*status.Observed, error) {
	in := &status.Observed{Observed: plan.Observed{Store: store, Region: r.Region, Operator: r.Operator, Image: r.Image,
		EdgeImage: r.EdgeImage, EtcdImage: r.EtcdImage, SameZone: r.SameZone,
		Neighbors: map[string]bool{}, ZoneOf: map[string]string{}, Now: r.Now()},
		WebhookInstalled: r.Webhook != nil, Webhook: r.Webhook != nil && r.Webhook()}
	var sets appsv1.StatefulSetList
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	var services corev1.ServiceList
	var configs corev1.ConfigMapList
	var deployments appsv1.DeploymentList
	for _, list := range []client.ObjectList{&sets, &pods, &claims, &services, &configs, &deployments} {
		if err := r.Client.List(ctx, list, ofStore(store)...); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	r.deleted.mark(store, pods.Items, metav1.NewTime(in.Now))
	for _, s := range services.Items {
		if dc := s.Labels[plan.LabelDataCenter]; metav1.IsControlledBy(&s, store) && dc != "" && !in.IsLocal(dc) {
			in.Neighbors[dc] = true
		}
	}
	in.StatefulSets = slices.DeleteFunc(sets.Items, func(s appsv1.StatefulSet) bool {
		return !in.IsLocal(s.Labels[plan.LabelDataCenter]) || !metav1.IsControlledBy(&s, store)
	})
	in.Deployments = slices.DeleteFunc(deployments.Items, func(d appsv1.Deployment) bool {
		return !in.IsLocal(d.Labels[plan.LabelDataCenter]) || !metav1.IsControlledBy(&d, store)
	})
	in.Services = slices.DeleteFunc(services.Items, func(s corev1.Service) bool {
		return !in.IsLocal(s.Labels[plan.LabelDataCenter]) || !metav1.IsControlledBy(&s, store)
	})
	for _, p := range pods.Items {
		switch {
		case !in.IsLocal(p.Labels[plan.LabelDataCenter]):
		case p.Labels[plan.LabelComponent] == plan.ComponentEdge:
			in.EdgePods = append(in.EdgePods, p)
		default:
			in.Pods = append(in.Pods, p)
		}
	}
	in.HasVolumes = slices.ContainsFunc(claims.Items, func(c corev1.PersistentVolumeClaim) bool {
		return plan.IsBound(&c)
	})
	in.Claims = slices.DeleteFunc(claims.Items, func(c corev1.PersistentVolumeClaim) bool {
		return !in.IsLocal(c.Labels[plan.LabelDataCenter])
	})
	in.ConfigMaps = slices.DeleteFunc(configs.Items, func(c corev1.ConfigMap) bool {
		return !metav1.IsControlledBy(&c, store)
	})
	nodes := metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := r.Client.List(ctx, &nodes, client.HasLabels{store.Spec.ZoneLabel}); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	labels := map[string]map[string]string{}
	for _, n := range nodes.Items {
		in.ZoneOf[n.Name], labels[n.Name] = n.Labels[store.Spec.ZoneLabel], n.Labels
	}
	return in, errors.Join(r.findVolumes(ctx, in, labels), r.findBlockers(ctx, in), r.readRecord(ctx, in),
		r.readKeys(ctx, in), r.readClients(ctx, in), r.readTrust(ctx, in))
}

// ofStore selects the objects of a store.
func ofStore(store *v1alpha1.CausalStore) []client.ListOption {
	return []client.ListOption{client.InNamespace(store.Namespace), client.MatchingLabels(plan.Labels(store.Name))}
}

// readRecord reads the record of this region. One that is lost is recovered from what runs.
func (r *Reconciler) readRecord(ctx context.Context, in *status.Observed) error {
	m := &corev1.ConfigMap{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: in.Store.Namespace,
		Name: plan.RecordName(in.Store.Name, r.Region)}, m)
	if err == nil && plan.HasLabels(in.Store, m) {
		in.Record, err = plan.ReadRecord(m)
		return err
	}
	if err := wrapUnlessGone("read the record", err); err != nil {
		return err
	}
	if in.Record = plan.RecoverRecord(in.Observed, in.ConfigMaps); in.Record != nil {
		r.recordEvent(in.Store, corev1.EventTypeNormal, "Recover", "record", "RecordRecovered",
			"ConfigMap %s is gone; it is made again from what runs: epoch %d, image %s",
			plan.RecordName(in.Store.Name, r.Region), in.Record.Epoch, in.Record.Image)
	}
	return nil
}

// readKeys reads the keys of the store, or makes new ones that are not written yet. Keys in a Secret that is not the
// store's are not used: whoever wrote it would know them.
func (r *Reconciler) readKeys(ctx context.Context, in *status.Observed) error {
	fresh, err := plan.NewKeys(r.Random)
	if err != nil {
		return err
	}
	in.Keys = fresh
	s := &corev1.Secret{}
	err = r.Uncached.Get(ctx, client.ObjectKey{Namespace: in.Store.Namespace, Name: plan.KeysName(in.Store.Name)}, s)
	if err != nil {
		return wrapUnlessGone("read the keys", err)
	}
	if plan.HasLabels(in.Store, s) {
		in.Keys = plan.ReadKeys(s, fresh)
	}
	return nil
}

// wrapUnlessGone says what has failed, unless an object does not exist.
func wrapUnlessGone(what string, err error) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
