// Package plan decides what there should be of a store in one cluster, from its spec and from what is there. It is pure: no
// clock, no randomness, no client. Gathering what is there, and making it so, is package causalstore's.
//
// It speaks of the data centres of one region only, and never needs to know how another region fares.
package plan

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// Observed is what there is.
type Observed struct {
	Store *v1alpha1.CausalStore
	// Region whose data centres are run here.
	Region string
	// Image of this operator, for stores that name none.
	Image string
	// Record is what this operator has noted about the store; a new store has none.
	Record *Record
	// Keys are the secrets of the store: those that exist, or fresh ones.
	Keys Keys

	StatefulSets []appsv1.StatefulSet
	Pods         []corev1.Pod
	Claims       []corev1.PersistentVolumeClaim
	// Moves are what parts say about a change that the record has, by the names of their pods: see Involved.
	Moves map[string]Move
	// ZoneOf is the zone of each node.
	ZoneOf map[string]string
	// SameZone is what this cluster calls the preference for what is in the same zone; empty is the word that all know.
	SameZone string

	// Measured are the coordinators that were asked, by the names of their pods.
	Measured map[string]Measure
	// Undrained says since when the log of a coordinator has not been seen drained, by the name of its pod.
	Undrained map[string]time.Time
	Now       time.Time
}

// Plan is what to do.
type Plan struct {
	// Record is what to note before anything else is done.
	Record Record
	// Apply are the objects that there should be, in the order in which they are best made. All others of the store go.
	Apply []client.Object
	// Recreate are StatefulSets to delete, without their pods, before they are applied.
	Recreate []string
	// Drop are claims of shards and coordinators that have left: nothing is in them any more.
	Drop []string
	// Grow are claims whose volumes should have more bytes.
	Grow []Growth
	// Restart are pods to delete, so that they come back as their StatefulSet has them now.
	Restart []Restart
	// Rollout says how many pods are not as their StatefulSet has them.
	Rollout Rollout
	// Reshape says how far a change of shards is, Regroup the same of coordinators.
	Reshape Reshape
	Regroup Regroup
	// Tell are pods to be marked with Record.Epoch, so that they get their configuration soon.
	Tell []string
}

// builder builds the objects of a store.
type builder struct {
	in     Observed
	store  *v1alpha1.CausalStore
	spec   *v1alpha1.CausalStoreSpec
	record Record
	// layout is what record.Layout says, with the epoch.
	layout  topology.File
	reshape Reshape
	regroup Regroup
}

// Make plans. The spec must be valid.
func Make(in Observed) (Plan, error) {
	b := &builder{in: in, store: in.Store, spec: &in.Store.Spec}
	if err := b.next(in); err != nil {
		return Plan{}, err
	}
	p := Plan{Record: b.record, Reshape: b.reshape, Regroup: b.regroup}
	p.Apply = append(p.Apply, b.recordMap(), b.serviceAccount(), b.keys(), b.storeService())
	p.Apply = append(p.Apply, b.networkPolicies()...)
	for i := range b.spec.DataCenters {
		if dc := &b.spec.DataCenters[i]; dc.Region == in.Region {
			objects, err := b.dataCenter(dc)
			if err != nil {
				return Plan{}, err
			}
			p.Apply = append(p.Apply, objects...)
		}
	}
	p.Recreate, p.Grow = volumes(p.Apply, in)
	if in.Store.Spec.DeletionPolicy == v1alpha1.DeletionDelete {
		p.Drop = leftovers(p.Apply, in)
	}
	p.Restart, p.Rollout = restarts(in, &b.layout, b.reshape.Here)
	p.Tell = b.tell()
	return p, nil
}

// dataCenter returns the objects of one data centre.
func (b *builder) dataCenter(dc *v1alpha1.DataCenter) ([]client.Object, error) {
	config, err := b.configMap(dc)
	if err != nil {
		return nil, err
	}
	objects := []client.Object{config, b.dataCenterService(dc), b.partsService(dc)}
	objects = append(objects, b.disruptionBudgets(dc)...)
	sets := []*appsv1.StatefulSet{b.coordinators(dc)}
	if dc.Caches.Replicas > 0 {
		sets = append(sets, b.caches(dc))
	}
	for i := range b.middlemen(dc) {
		sets = append(sets, b.shard(dc, i))
	}
	for _, s := range sets {
		if err := b.pin(s); err != nil {
			return nil, err
		}
		objects = append(objects, s)
	}
	return objects, nil
}

// middlemen is how many a data centre has now.
func (b *builder) middlemen(dc *v1alpha1.DataCenter) int32 {
	return middlemen(findDataCenter(&b.layout, dc.Name))
}

// meta is the metadata of an object that goes with the store.
func (b *builder) meta(name string, labels map[string]string) metav1.ObjectMeta {
	m := b.keptMeta(name, labels)
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(b.store, v1alpha1.GroupVersion.WithKind("CausalStore"))}
	return m
}

// keptMeta is the metadata of an object that outlives the store, if the deletion policy says so.
func (b *builder) keptMeta(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: b.store.Namespace, Labels: labels}
}
