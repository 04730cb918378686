package storepage

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
	"github.com/causalstore/causalstore/controllers/partmetrics"
	"github.com/causalstore/causalstore/version"
)

// MaxSidecars bounds the sidecars of apps that are read for a snapshot. Of a store with more, the operations and
// sessions are unknown.
const MaxSidecars = 100

// sidecarsInterval is the time between two lists of the pods of apps, which the operator does not cache.
const sidecarsInterval = 30 * time.Second

// Store reads one store, as far as it is in one region. It implements console.Source.
type Store struct {
	name   types.NamespacedName
	region string
	// stores reads through the operator's cache, uncached without it. namespaces are those that the operator may read;
	// empty: all.
	stores, uncached client.Reader
	namespaces       []string
	reader           *reader
	now              func() time.Time

	mu       sync.Mutex
	apps     []corev1.Pod
	appsAt   time.Time
	tooMany  bool
	appsErr  error
	counters counters
}

// get returns the store.
func (s *Store) get(ctx context.Context) (*v1alpha1.CausalStore, error) {
	var store v1alpha1.CausalStore
	if err := s.stores.Get(ctx, s.name, &store); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("namespace %s has no CausalStore %s in this cluster: %w", s.name.Namespace,
				s.name.Name, fs.ErrNotExist)
		}
		return nil, fmt.Errorf("read CausalStore %s: %w", s.name, err)
	}
	return &store, nil
}

// noClient says why the page can neither write nor read keys.
const noClient = "The operator is no client of the store: it has no password of one, and does not write. " +
	"kubectl causal explain key says which shard of each ring owns a key. causalstore local and demo show the " +
	"way of a write."

// Layout implements console.Source.
func (s *Store) Layout(ctx context.Context) (console.Layout, error) {
	store, err := s.get(ctx)
	if err != nil {
		return console.Layout{}, err
	}
	l := console.Layout{Title: fmt.Sprintf("store %s, region %s", s.name, s.region), Version: version.Exact(),
		NoClient: noClient, RunbookBase: console.Runbooks}
	for _, r := range store.Spec.Rings {
		l.Rings = append(l.Rings, r.Name)
	}
	for i := range store.Spec.DataCenters {
		dc := &store.Spec.DataCenters[i]
		site := console.LayoutSite{Name: dc.Name, Region: dc.Region, Latitude: dc.Latitude, Longitude: dc.Longitude}
		for _, r := range store.Spec.Rings {
			if slices.Contains(r.DataCenters, dc.Name) {
				site.Ring = r.Name
			}
		}
		l.DataCenters = append(l.DataCenters, site)
	}
	return l, nil
}

// Take implements console.Source.
func (s *Store) Take(ctx context.Context) console.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := observed{region: s.region, at: s.now()}
	store, err := s.get(ctx)
	if err != nil {
		return console.Snapshot{AtMs: seen.at.UnixMilli(), DataCenters: []console.DataCenter{}, Links: []console.Link{},
			Problems: []console.Problem{{Severity: console.Critical, Text: err.Error(),
				Runbook: "CausalStoreStatusStale"}}}
	}
	seen.store = store
	mine := []client.ListOption{client.InNamespace(s.name.Namespace), client.MatchingLabels(plan.Labels(s.name.Name)),
		client.MatchingLabels{plan.LabelRegion: s.region}}
	var pods corev1.PodList
	var sets appsv1.StatefulSetList
	for _, err := range []error{s.stores.List(ctx, &pods, mine...), s.stores.List(ctx, &sets, mine...)} {
		if err != nil {
			seen.unread = append(seen.unread, err.Error())
		}
	}
	seen.pods, seen.sets = pods.Items, sets.Items
	s.listApps(ctx, store)
	seen.tooManySidecars = s.tooMany
	if s.appsErr != nil {
		seen.unread = append(seen.unread, s.appsErr.Error())
	}
	seen.readings = s.reader.readAll(ctx, processesOf(store, seen.pods, s.apps))
	seen.counters = s.counters.add(seen.readings)
	return seen.snapshot()
}

// listApps lists the pods of apps in this region that have a sidecar of the store, now and then.
func (s *Store) listApps(ctx context.Context, store *v1alpha1.CausalStore) {
	if !s.appsAt.IsZero() && s.now().Sub(s.appsAt) < sidecarsInterval {
		return
	}
	s.appsAt, s.apps, s.tooMany, s.appsErr = s.now(), nil, false, nil
	namespaces := s.namespaces
	if len(namespaces) == 0 {
		namespaces = []string{corev1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		var pods corev1.PodList
		// Another namespace may have a store of the same name, whose pods have the same label.
		if err := s.uncached.List(ctx, &pods, client.InNamespace(namespace),
			client.MatchingLabels{inject.LabelStore: s.name.Name}, client.Limit(10*MaxSidecars)); err != nil {
			s.appsErr = fmt.Errorf("list the pods with a sidecar: %w", err)
			return
		}
		s.tooMany = s.tooMany || pods.Continue != ""
		for _, p := range pods.Items {
			if of, ok := inject.SidecarOf(&p); ok && of.Namespace == s.name.Namespace &&
				isHere(store, of.DataCenter, s.region) {
				s.apps = append(s.apps, p)
			}
		}
	}
	if s.tooMany = s.tooMany || len(s.apps) > MaxSidecars; s.tooMany {
		s.apps = nil
	}
}

func isHere(store *v1alpha1.CausalStore, dataCenter, region string) bool {
	return slices.ContainsFunc(store.Spec.DataCenters, func(dc v1alpha1.DataCenter) bool {
		return dc.Name == dataCenter && dc.Region == region
	})
}

// process is a process that exports metrics, in the pod of a part, or the sidecar in the pod of an app.
type process struct {
	pod        *corev1.Pod
	port       int
	dataCenter string
	// serves says that Redis clients connect to it.
	serves bool
}

// processesOf returns the processes in pods that run.
func processesOf(store *v1alpha1.CausalStore, parts, apps []corev1.Pod) (all []process) {
	runs := func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && p.Status.PodIP != "" }
	for i := range parts {
		p := &parts[i]
		switch p.Labels[plan.LabelComponent] {
		case plan.ComponentCoordinator, plan.ComponentCache, plan.ComponentShard:
		default:
			continue // Envoy and etcd export metrics of their own
		}
		if !runs(p) {
			continue
		}
		dc := p.Labels[plan.LabelDataCenter]
		all = append(all, process{p, plan.PortHTTP, dc, false})
		if store.Spec.Clients.Front.IsEnabled() &&
			slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
				return c.Name == plan.FrontContainer
			}) {
			all = append(all, process{p, plan.PortFrontHTTP, dc, true})
		}
	}
	for i := range apps {
		p := &apps[i]
		if of, ok := inject.SidecarOf(p); ok && runs(p) {
			all = append(all, process{p, plan.PortHTTP, of.DataCenter, true})
		}
	}
	return all
}

// reading is the answer of one process, or the error.
type reading struct {
	process
	metrics partmetrics.Families
	err     error
}
