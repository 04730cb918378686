package causalstore_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deployments simulates the Deployment controller and the load balancers of one namespace. A pod is replaced after a
// new one is ready, one at a time, as the strategy of edges says. It returns the Deployments, which own pods.
func (w *workloads) deployments(ctx context.Context, pods []corev1.Pod) ([]metav1.Object, error) {
	var all appsv1.DeploymentList
	if err := w.seen.List(ctx, &all, client.InNamespace(w.namespace)); err != nil {
		return nil, err
	}
	var owners []metav1.Object
	for i := range all.Items {
		d := &all.Items[i]
		owners = append(owners, d)
		if d.DeletionTimestamp != nil {
			continue
		}
		if err := w.deployment(ctx, d, pods); err != nil {
			return nil, err
		}
	}
	return owners, w.balancers(ctx)
}

func (w *workloads) deployment(ctx context.Context, d *appsv1.Deployment, pods []corev1.Pod) error {
	text, err := json.Marshal(d.Spec.Template)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	revision := hex.EncodeToString(sum[:5])
	status := appsv1.DeploymentStatus{ObservedGeneration: d.Generation}
	var old []corev1.Pod
	current, ready, names := int32(0), int32(0), []string{}
	for _, p := range pods {
		if !metav1.IsControlledBy(&p, d) || p.DeletionTimestamp != nil {
			continue
		}
		names = append(names, p.Name)
		status.Replicas++
		if isReady(&p) {
			status.ReadyReplicas++
		}
		if p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] != revision {
			old = append(old, p)
			continue
		}
		if current++; isReady(&p) {
			ready++
		}
	}
	status.UpdatedReplicas = current
	surge := int32(d.Spec.Strategy.RollingUpdate.MaxSurge.IntValue())
	switch desired := *d.Spec.Replicas; {
	case current < desired && status.Replicas < desired+surge:
		for i := 0; ; i++ {
			if name := fmt.Sprintf("%s-%s-%d", d.Name, revision, i); !slices.Contains(names, name) {
				return w.makeEdgePod(ctx, d, name, revision)
			}
		}
	case len(old) > 0 && status.ReadyReplicas > desired-int32(d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue()),
		len(old) > 0 && ready >= desired:
		return w.delete(ctx, &old[0])
	}
	if was := d.Status; was.ObservedGeneration == status.ObservedGeneration && was.Replicas == status.Replicas &&
		was.ReadyReplicas == status.ReadyReplicas &&
		was.UpdatedReplicas == status.UpdatedReplicas {
		return nil
	}
	d.Status = status
	return w.client.Status().Update(ctx, d)
}

func (w *workloads) makeEdgePod(ctx context.Context, d *appsv1.Deployment, name, revision string) error {
	p := &corev1.Pod{ObjectMeta: *d.Spec.Template.ObjectMeta.DeepCopy(), Spec: *d.Spec.Template.Spec.DeepCopy()}
	p.Name, p.Namespace = name, w.namespace
	p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = revision
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d,
		appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	p.Spec.NodeName = "node-zone-a"
	return w.client.Create(ctx, p)
}

// balancers gives addresses to Services that ask for a load balancer.
func (w *workloads) balancers(ctx context.Context) error {
	w.mu.Lock()
	is := w.balancer
	w.mu.Unlock()
	var all corev1.ServiceList
	if err := w.seen.List(ctx, &all, client.InNamespace(w.namespace)); err != nil || is == "" {
		return err
	}
	for i := range all.Items {
		s := &all.Items[i]
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0 {
			continue
		}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: is}}
		if err := w.client.Status().Update(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// balance gives an address to Services of type LoadBalancer from now on.
func (w *workloads) balance(ip string) { w.change(func() { w.balancer = ip }) }
