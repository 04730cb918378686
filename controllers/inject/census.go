package inject

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// Reasons of a Census, besides those of a Decision.
const (
	// ReasonMissed: no webhook has seen the pod. It was created before its namespace asked for sidecars, or while no
	// webhook answered.
	ReasonMissed Reason = "Missed"
	// ReasonOtherStore: its sidecar is of another store than the one that its namespace asks for now.
	ReasonOtherStore Reason = "OtherStore"
)

// CensusInterval is the time between two counts.
const CensusInterval = time.Minute

// censusPage bounds the pods of one request.
const censusPage = 500

// Census counts, by namespace and reason, the pods that run without the sidecar that their namespace asks for. The
// leader does, from time to time: such pods are not watched, since no controller acts on them. It is a
// prometheus.Collector and a manager.Runnable.
type Census struct {
	// Client reads namespaces, Uncached pods.
	Client, Uncached client.Reader
	// Namespaces are those that the operator may use; if empty, all.
	Namespaces []string
	Interval   time.Duration

	mu     sync.Mutex
	counts map[group]int
}

// group is what is counted together.
type group struct {
	namespace string
	store     StoreRef
	reason    Reason
}

var podsWithoutSidecar = prometheus.NewDesc("causalstore_pods_without_sidecar",
	"Pods that run without the sidecar that their namespace asks for, by the reason; of the replica that leads.",
	[]string{"pod_namespace", "store_namespace", "store", "reason"}, nil)

// Describe implements prometheus.Collector.
func (c *Census) Describe(ch chan<- *prometheus.Desc) { ch <- podsWithoutSidecar }

// Collect implements prometheus.Collector.
func (c *Census) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for g, n := range c.counts {
		ch <- prometheus.MustNewConstMetric(podsWithoutSidecar, prometheus.GaugeValue, float64(n), g.namespace,
			g.store.Namespace, g.store.Name, string(g.reason))
	}
}

// Start implements manager.Runnable: it counts until the context ends.
func (c *Census) Start(ctx context.Context) error {
	for {
		if err := c.Take(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "count the pods without a sidecar")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Interval):
		}
	}
}

// Take counts once. The counts of a namespace whose pods cannot be listed stay as they are.
func (c *Census) Take(ctx context.Context) error {
	var namespaces metav1.PartialObjectMetadataList
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := c.Client.List(ctx, &namespaces, client.HasLabels{LabelInject}); err != nil {
		return fmt.Errorf("list the namespaces with label %s: %w", LabelInject, err)
	}
	counts := map[group]int{}
	var errs []error
	for _, ns := range namespaces.Items {
		want, ok := ParseStoreRef(ns.Name, ns.Labels)
		if !ok || !serves(c.Namespaces, ns.Name) {
			continue
		}
		found, err := c.count(ctx, ns.Name, want)
		if err != nil {
			errs, found = append(errs, err), c.lastCounts(ns.Name)
		}
		maps.Copy(counts, found)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts = counts
	return errors.Join(errs...)
}

func (c *Census) lastCounts(namespace string) map[group]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := maps.Clone(c.counts)
	maps.DeleteFunc(last, func(g group, _ int) bool { return g.namespace != namespace })
	return last
}

// running selects the pods that have not ended.
var running = client.MatchingFieldsSelector{Selector: fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))}

// count counts the pods of one namespace.
func (c *Census) count(ctx context.Context, namespace string, want StoreRef) (map[group]int, error) {
	counts, next := map[group]int{}, ""
	for {
		var pods metav1.PartialObjectMetadataList
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := c.Uncached.List(ctx, &pods, client.InNamespace(namespace), running, client.Limit(censusPage),
			client.Continue(next)); err != nil {
			return nil, fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
		}
		for i := range pods.Items {
			if reason := LacksSidecar(&pods.Items[i].ObjectMeta, want); reason != Injected {
				counts[group{namespace, want, reason}]++
			}
		}
		if next = pods.Continue; next == "" {
			return counts, nil
		}
	}
}

// LacksSidecar returns why a pod that runs has no sidecar of the store that its namespace asks for, or Injected if it
// has one or needs none.
func LacksSidecar(pod *metav1.ObjectMeta, want StoreRef) Reason {
	if pod.Labels[plan.LabelManagedBy] == plan.ManagedBy || pod.Labels[LabelInject] == "false" ||
		pod.DeletionTimestamp != nil {
		return Injected
	}
	of, ok := SidecarOf(&corev1.Pod{ObjectMeta: *pod})
	if ok && (of.Namespace != want.Namespace || of.Store != want.Name) {
		return ReasonOtherStore
	}
	if ok {
		return Injected
	}
	if reason, _, ok := strings.Cut(pod.Annotations[AnnotationNotInjected], ": "); ok {
		return Reason(reason)
	}
	return ReasonMissed
}
