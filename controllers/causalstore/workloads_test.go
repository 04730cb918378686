package causalstore_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// workloads simulates what a cluster does with StatefulSets in one namespace, with the update strategy OnDelete: the
// StatefulSet controller, the scheduler, the volume provisioner, the kubelet and the garbage collector. Pods become
// ready at once, unless they are broken.
type workloads struct {
	*cluster
	seen    client.Reader // what the simulation sees, as a controller does: late
	changed chan struct{} // ready after a change

	mu      sync.Mutex
	podIP   string                                  // of all pods
	broken  map[string]bool                         // images and pods that do not become ready
	waiting map[string]corev1.ContainerStateWaiting // why the first container of such a pod waits
	// StatefulSets whose pods cannot be made, with the words of the API server
	refused  map[string]string
	pending  map[string]bool // pods that no node takes, because a claim has no volume
	balancer string          // the address that load balancers have; none if empty
	made     map[string]bool // pods that were created
	restarts []string        // pods that were deleted and created again, in that order
	// the greatest number of pods that were not ready at the same time, after all had been
	most   int
	served bool
}

// simulateWorkloads runs until the test ends.
func simulateWorkloads(k *cluster) *workloads {
	w := &workloads{cluster: k, podIP: "10.1.2.3", broken: map[string]bool{},
		waiting: map[string]corev1.ContainerStateWaiting{}, refused: map[string]string{}, pending: map[string]bool{},
		made: map[string]bool{}}
	w.seen, w.changed = k.watch(&appsv1.StatefulSet{}, &appsv1.Deployment{}, &corev1.Pod{},
		&corev1.PersistentVolumeClaim{}, &corev1.Service{})
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-w.changed:
			}
			switch err := w.step(context.Background()); {
			case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
				// something changed that was not seen
				notify(w.changed)
			case err != nil:
				k.t.Errorf("simulate workloads: %v", err)
				return
			}
			time.Sleep(10 * time.Millisecond) // many changes are one step
		}
	}()
	k.t.Cleanup(func() { close(stop); <-ended })
	return w
}

// fail makes a pod, or all pods with an image, not ready; repair ends that.
func (w *workloads) fail(what string) { w.change(func() { w.broken[what] = true }) }

// failWaiting does the same, and says why the first container waits.
func (w *workloads) failWaiting(what, reason, message string) {
	w.change(func() {
		w.broken[what], w.waiting[what] = true, corev1.ContainerStateWaiting{Reason: reason, Message: message}
	})
}

func (w *workloads) repair(what string) { w.change(func() { delete(w.broken, what) }) }

// change changes what is simulated.
func (w *workloads) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	notify(w.changed)
}

// history returns the pods that have restarted so far, and the greatest number that was away at once.
func (w *workloads) history() (restarts []string, most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.restarts), w.most
}

// forgetHistory makes history begin now.
func (w *workloads) forgetHistory() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restarts, w.most = nil, 0
}

func (w *workloads) step(ctx context.Context) error {
	var sets appsv1.StatefulSetList
	var pods corev1.PodList
	for _, l := range []client.ObjectList{&sets, &pods} {
		if err := w.seen.List(ctx, l, client.InNamespace(w.namespace)); err != nil {
			return err
		}
	}
	owners, err := w.deployments(ctx, pods.Items)
	if err != nil {
		return err
	}
	for i := range sets.Items {
		owners = append(owners, &sets.Items[i])
	}
	byName := map[string]*corev1.Pod{}
	away, ofSets := 0, 0
	for i := range pods.Items {
		p := &pods.Items[i]
		if err := w.kubelet(ctx, p, owners); err != nil {
			return err
		}
		if o := metav1.GetControllerOf(p); o != nil && o.Kind == "Deployment" {
			continue
		}
		byName[p.Name] = p
		ofSets++
		if !isReady(p) || p.DeletionTimestamp != nil {
			away++
		}
	}
	desired := 0
	if err := w.freeClaims(ctx, byName); err != nil {
		return err
	}
	for i := range sets.Items {
		s := &sets.Items[i]
		desired += int(*s.Spec.Replicas)
		if err := w.statefulSet(ctx, s, byName); err != nil {
			return err
		}
	}
	away += max(0, desired-ofSets)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.served = w.served || away == 0 && desired > 0; w.served {
		w.most = max(w.most, away)
	}
	return nil
}

// kubelet deletes pods that are terminating, or whose owner was deleted, and makes the others ready.
func (w *workloads) kubelet(ctx context.Context, p *corev1.Pod, owners []metav1.Object) error {
	owner := metav1.GetControllerOf(p)
	orphan := owner != nil && !slices.ContainsFunc(owners, func(o metav1.Object) bool {
		return o.GetUID() == owner.UID
	})
	if p.DeletionTimestamp != nil || orphan {
		return w.delete(ctx, p, client.GracePeriodSeconds(0))
	}
	w.mu.Lock()
	ready, ip := !w.broken[p.Name] && !w.pending[p.Name], w.podIP
	pending := w.pending[p.Name]
	waiting, waits := w.waiting[p.Name]
	for _, c := range p.Spec.Containers {
		ready = ready && !w.broken[c.Image]
		if why, ok := w.waiting[c.Image]; ok {
			waiting, waits = why, true
		}
	}
	w.mu.Unlock()
	if isReady(p) == ready && len(p.Status.Conditions) > 0 {
		return nil
	}
	is := corev1.ConditionFalse
	if ready {
		is = corev1.ConditionTrue
	}
	p.Status.Phase, p.Status.PodIP = corev1.PodRunning, ip
	p.Status.PodIPs = []corev1.PodIP{{IP: p.Status.PodIP}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: is}}
	if pending {
		p.Status.Phase = corev1.PodPending
		p.Status.Conditions = append(p.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Reason:  corev1.PodReasonUnschedulable,
				Message: "0/9 nodes are available: pod has unbound immediate PersistentVolumeClaims."})
	}
	p.Status.ContainerStatuses = nil
	if first := p.Spec.Containers[0]; !ready && waits {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: first.Name, Image: first.Image,
			State: corev1.ContainerState{Waiting: &waiting}}}
	}
	return w.client.Status().Update(ctx, p)
}

// delete deletes a pod, unless it has changed since it was seen: then it may have another owner.
func (w *workloads) delete(ctx context.Context, p *corev1.Pod, opts ...client.DeleteOption) error {
	return w.client.Delete(ctx, p,
		append(opts, client.Preconditions{UID: &p.UID, ResourceVersion: &p.ResourceVersion})...)
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (w *workloads) statefulSet(ctx context.Context, s *appsv1.StatefulSet, pods map[string]*corev1.Pod) error {
	if s.DeletionTimestamp != nil {
		return w.orphan(ctx, s, pods)
	}
	if err := w.scaleDown(ctx, s, pods); err != nil {
		return err
	}
	revision := s.Name + "-" + revisionOf(s)
	status := appsv1.StatefulSetStatus{ObservedGeneration: s.Generation, UpdateRevision: revision,
		CurrentRevision: revision}
	for i := range *s.Spec.Replicas {
		name := fmt.Sprintf("%s-%d", s.Name, i)
		p := pods[name]
		if why := w.refusal(s.Name); p == nil && why != "" {
			if err := w.reportRefusal(ctx, s, why); err != nil {
				return err
			}
			break
		}
		if p == nil {
			if err := w.makePod(ctx, s, name, int(i), revision); err != nil {
				return err
			}
			continue
		}
		if metav1.GetControllerOf(p) == nil { // adopt it
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s,
				appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
			if err := w.client.Update(ctx, p); err != nil {
				return err
			}
		}
		status.Replicas++
		if isReady(p) {
			status.ReadyReplicas++
		}
		if p.Labels[appsv1.StatefulSetRevisionLabel] == revision {
			status.UpdatedReplicas++
		}
	}
	was := s.Status
	if was.ObservedGeneration == status.ObservedGeneration && was.UpdateRevision == status.UpdateRevision &&
		was.Replicas == status.Replicas &&
		was.ReadyReplicas == status.ReadyReplicas && was.UpdatedReplicas == status.UpdatedReplicas {
		return nil
	}
	s.Status = status
	return w.client.Status().Update(ctx, s)
}

func (w *workloads) refusal(set string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused[set]
}

// reportRefusal records the event of a StatefulSet controller that cannot make a pod.
func (w *workloads) reportRefusal(ctx context.Context, s *appsv1.StatefulSet, why string) error {
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + ".refused"},
		Type: corev1.EventTypeWarning, Reason: "FailedCreate",
		InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", APIVersion: "apps/v1", Namespace: s.Namespace,
			Name: s.Name, UID: s.UID},
		Message: why, LastTimestamp: metav1.Now()}
	return client.IgnoreAlreadyExists(w.client.Create(ctx, e))
}

// scaleDown deletes the pods that a StatefulSet has too many.
func (w *workloads) scaleDown(ctx context.Context, s *appsv1.StatefulSet, pods map[string]*corev1.Pod) error {
	for i := *s.Spec.Replicas; ; i++ {
		p := pods[fmt.Sprintf("%s-%d", s.Name, i)]
		if p == nil {
			return nil
		}
		if err := w.delete(ctx, p); err != nil {
			return err
		}
	}
}

// freeClaims completes the deletion of claims that no pod uses.
func (w *workloads) freeClaims(ctx context.Context, pods map[string]*corev1.Pod) error {
	var claims corev1.PersistentVolumeClaimList
	if err := w.seen.List(ctx, &claims, client.InNamespace(w.namespace)); err != nil {
		return err
	}
	for i := range claims.Items {
		c := &claims.Items[i]
		pod := strings.TrimPrefix(strings.TrimPrefix(c.Name, "data-"), "log-")
		if c.DeletionTimestamp == nil || pods[pod] != nil {
			continue
		}
		switch err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: pod}, &corev1.Pod{}); {
		case err == nil:
			continue // it has just been made, and was not seen yet
		case !apierrors.IsNotFound(err):
			return err
		}
		c.Finalizers = nil
		if err := w.client.Update(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// orphan deletes a StatefulSet without its pods.
func (w *workloads) orphan(ctx context.Context, s *appsv1.StatefulSet, pods map[string]*corev1.Pod) error {
	for _, p := range pods {
		if metav1.IsControlledBy(p, s) {
			p.OwnerReferences = nil
			if err := w.client.Update(ctx, p); err != nil {
				return err
			}
		}
	}
	s.Finalizers = nil
	return w.client.Update(ctx, s)
}

// noSuchClass is a storage class that does not exist.
const noSuchClass = "fats"

func (w *workloads) makePod(ctx context.Context, s *appsv1.StatefulSet, name string, index int, revision string) error {
	for _, template := range s.Spec.VolumeClaimTemplates {
		c := template.DeepCopy()
		c.Name, c.Namespace = template.Name+"-"+name, w.namespace
		err := w.client.Create(ctx, c)
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		if err != nil {
			return err
		}
		if class := c.Spec.StorageClassName; class != nil && *class == noSuchClass {
			continue // nothing provisions a volume
		}
		c.Status.Phase, c.Status.Capacity = corev1.ClaimBound, c.Spec.Resources.Requests
		if err := w.client.Status().Update(ctx, c); err != nil {
			return err
		}
	}
	p := &corev1.Pod{ObjectMeta: *s.Spec.Template.ObjectMeta.DeepCopy(), Spec: *s.Spec.Template.Spec.DeepCopy()}
	p.Name, p.Namespace = name, w.namespace
	for _, template := range s.Spec.VolumeClaimTemplates {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: template.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: template.Name + "-" + name}}})
	}
	p.Labels[appsv1.StatefulSetRevisionLabel], p.Labels[appsv1.PodIndexLabel] = revision, fmt.Sprint(index)
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s,
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	zones := []string{"zone-a"} // without an affinity any will do
	if p.Spec.Affinity != nil && p.Spec.Affinity.NodeAffinity != nil {
		zones = p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values
	}
	p.Spec.NodeName = "node-" + zones[(shardOf(p)+index)%len(zones)]
	if err := w.client.Create(ctx, p); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.made[name] {
		w.restarts = append(w.restarts, name)
	}
	w.made[name] = true
	return nil
}

// shardOf spreads shards over zones.
func shardOf(p *corev1.Pod) (n int) {
	_, _ = fmt.Sscan(p.Labels["causalstore.io/shard"], &n) // others have no such label, and count as 0
	return n
}

func revisionOf(s *appsv1.StatefulSet) string {
	b, err := json.Marshal(s.Spec.Template)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:5])
}
