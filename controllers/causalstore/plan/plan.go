// Package plan decides which objects a store has in one cluster and what to do next, from its spec and from what was
// observed. It is pure: no clock, no randomness, no client. Package causalstore observes, and carries the plan out.
//
// A plan concerns the data centers of one region only, and needs no knowledge of the state of other regions.
package plan

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/topology"
)

// Observed is the input of a plan: the store, and what exists of it in this cluster.
type Observed struct {
	Store *v1alpha1.CausalStore
	// Region is the region of the data centers that this operator runs. Operator tells it from other operators.
	Region, Operator string
	// Neighbors are the data centers of other regions that another operator runs in the same namespace.
	Neighbors map[string]bool
	// Image is the image of this operator, for stores that name none. EdgeImage is that of the edges, EtcdImage that of
	// etcds; they may be empty.
	Image, EdgeImage, EtcdImage string
	// EtcdBundles are the digests of the authorities that the members of each data center's etcd are to accept.
	EtcdBundles map[string]string
	// Record is what the operator has recorded about the store; a new store has none.
	Record *Record
	// Trust is whom the parts may trust.
	Trust Trust
	// Keys are the secrets of the store: the existing ones, or new ones.
	Keys Keys
	// Clients is what the Secrets of spec.clients hold.
	Clients ClientSecrets

	StatefulSets []appsv1.StatefulSet
	Pods         []corev1.Pod
	// Deployments and EdgePods are those of the edges, and Services all that the store has in this region.
	Deployments []appsv1.Deployment
	EdgePods    []corev1.Pod
	Services    []corev1.Service
	Claims      []corev1.PersistentVolumeClaim
	ConfigMaps  []corev1.ConfigMap
	// HasVolumes is set if any claim of the store in this namespace has a volume, whatever its data center is called.
	HasVolumes bool
	// Reports are what parts report, by the names of their pods: those that are involved in a change that the record
	// has (see InvolvedPods), and those that are not ready.
	Reports map[string]Report
	// ZoneOf is the zone of each node.
	ZoneOf map[string]string
	// VolumeZones are the zones in which the volume of a claim can be used, by the name of the claim. A volume that can
	// be used anywhere, or of which it is unknown, has none.
	VolumeZones map[string][]string
	// SameZone is the traffic distribution by which this cluster prefers endpoints in the same zone. If it is empty,
	// PreferClose is used, which all supported versions of Kubernetes know.
	SameZone string

	// Measured are the coordinators that have answered, and the members of shards with a register, by the names of
	// their pods.
	Measured map[string]Measure
	// UndrainedSince is the time since which the log of a coordinator has not been seen drained, by the name of its
	// pod.
	UndrainedSince map[string]time.Time
	Now            time.Time
}

// Plan is what to do.
type Plan struct {
	// Record is to be written before anything else is done.
	Record Record
	// Apply are the objects that the store should have, in the order in which to apply them. All others of the store
	// are to be deleted.
	Apply []client.Object
	// Recreate names StatefulSets to delete without their pods before they are applied.
	Recreate []string
	// DeleteClaims names claims of shards and coordinators that have left, whose data is no longer needed.
	DeleteClaims []string
	// GrowClaims are claims whose volumes should have more bytes.
	GrowClaims []ClaimSize
	// Restart are pods to delete, so that their StatefulSet creates them from its present template.
	Restart []Restart
	// Rollout is the progress of the restarts.
	Rollout Rollout
	// Resharding and Scaling are the progress of changes of the numbers of shards and coordinators.
	Resharding Resharding
	Scaling    CoordinatorScaling
	// Notify names pods to be marked with Record.Epoch, so that their kubelets bring them the new configuration soon.
	Notify []string
	// NotifyUsers names pods to be marked with the version of the users, for the same reason.
	NotifyUsers []string
}

// builder builds the objects of a store.
type builder struct {
	in     Observed
	store  *v1alpha1.CausalStore
	spec   *v1alpha1.CausalStoreSpec
	record Record
	// layout is that of the record, with the epoch.
	layout     topology.File
	resharding Resharding
	scaling    CoordinatorScaling
}

// Make returns the plan for what was observed. The spec must be valid.
func Make(in Observed) (Plan, error) {
	b := &builder{in: in, store: in.Store, spec: &in.Store.Spec}
	if err := b.advanceRecord(); err != nil {
		return Plan{}, err
	}
	p := Plan{Record: b.record, Resharding: b.resharding, Scaling: b.scaling}
	p.Apply = append(p.Apply, b.recordMap(), b.serviceAccount(), b.keys())
	p.Apply = append(p.Apply, b.clientObjects()...)
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
	p.Recreate, p.GrowClaims = planGrowth(p.Apply, in)
	if in.Store.Spec.DeletionPolicy == v1alpha1.DeletionDelete {
		p.DeleteClaims = abandonedClaims(p.Apply, in)
	}
	p.Restart, p.Rollout = planRestarts(in, &b.layout, b.resharding.Local)
	p.Notify, p.NotifyUsers = b.podsToNotify(), b.podsToNotifyOfUsers()
	return p, nil
}

// dataCenter returns the objects of one data center.
func (b *builder) dataCenter(dc *v1alpha1.DataCenter) ([]client.Object, error) {
	config, err := b.configMap(dc)
	if err != nil {
		return nil, err
	}
	objects := []client.Object{config}
	if b.spec.Clients.Front.IsEnabled() {
		objects = append(objects, b.dataCenterService(dc))
	}
	objects = append(objects, b.partsService(dc))
	objects = append(objects, b.disruptionBudgets(dc)...)
	counts := b.counts(dc)
	var sets []*appsv1.StatefulSet
	for m := range counts.Members(topology.Coordinator) {
		sets = append(sets, b.coordinatorSet(dc, m+1))
	}
	if dc.Caches.Replicas > 0 {
		sets = append(sets, b.cacheSet(dc))
	}
	eachMember(counts, topology.Middleman, func(i, member int) {
		sets = append(sets, b.shardSet(dc, i, member))
	})
	for _, s := range sets {
		if err := b.pinTemplate(s); err != nil {
			return nil, err
		}
		objects = append(objects, s)
	}
	if b.in.HasEtcd(dc) {
		own, err := b.etcd(dc)
		if err != nil {
			return nil, err
		}
		objects = append(objects, own...)
	}
	if b.in.HasEdge(dc) && !b.in.KeepsEdges() {
		own, err := b.edge(dc)
		if err != nil {
			return nil, err
		}
		objects = append(objects, own...)
	}
	return objects, nil
}

// counts returns how many parts a data center has by the layout.
func (b *builder) counts(dc *v1alpha1.DataCenter) topology.DataCenter {
	return findDataCenter(&b.layout, dc.Name).Counts()
}

// meta returns the metadata of an object that is deleted with the store.
func (b *builder) meta(name string, labels map[string]string) metav1.ObjectMeta {
	m := b.keptMeta(name, labels)
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(b.store,
		v1alpha1.GroupVersion.WithKind("CausalStore"))}
	return m
}

// keptMeta returns the metadata of an object that outlives the store if the deletion policy is Retain.
func (b *builder) keptMeta(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: b.store.Namespace, Labels: labels}
}
