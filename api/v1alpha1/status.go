package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CausalStoreStatus is the state that the operator of this cluster observes. It covers the data centers of its own
// region.
type CausalStoreStatus struct {
	// ObservedGeneration is the generation of the spec that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions of the store: Ready, Progressing, Degraded, TopologyValid, StorageReady, PeersConnected, PeersTrusted,
	// CertificatesCurrent, EdgesReady, EtcdReady, UnderReplicated, VolumesKept, ClientsReady, InjectionReady and
	// Paused.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// HeartbeatTime is when the operator last looked at the store. It is updated about once a minute; if it is minutes
	// old, no operator runs, and the rest of the status is as old. Of operators of several regions, the earliest
	// counts.
	//
	// +optional
	HeartbeatTime *metav1.Time `json:"heartbeatTime,omitempty"`
	// Summary holds the texts of the printed columns.
	//
	// +optional
	Summary Summary `json:"summary,omitzero"`
	// Topology is the topology that the parts are configured with.
	//
	// +optional
	Topology TopologyStatus `json:"topology,omitzero"`
	// Endpoint is the host:port that clients without a sidecar connect to; it is empty if the front is off.
	//
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// DataCenters has the state of each data center.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	DataCenters []DataCenterStatus `json:"dataCenters,omitempty"`
	// Rings has the state of each ring.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Rings []RingStatus `json:"rings,omitempty"`
	// Problems lists the pods of the store in this cluster that do not serve, with the cause as far as Kubernetes or
	// the part itself knows it: the first 32, by name.
	//
	// +optional
	// +listType=map
	// +listMapKey=pod
	// +kubebuilder:validation:MaxItems=32
	Problems []PodProblem `json:"problems,omitempty"`
	// Regions has what the operator of each region reports, if operators of several regions run the store in this
	// cluster. The rest of the status combines it: a condition is that of the region that needs attention most.
	//
	// +optional
	// +listType=map
	// +listMapKey=region
	// +kubebuilder:validation:MaxItems=64
	Regions []RegionStatus `json:"regions,omitempty"`
}

// RegionStatus is what the operator of one region reports.
type RegionStatus struct {
	// Region of the operator.
	//
	// +required
	Region string `json:"region"`
	// ObservedGeneration is the generation of the spec that the operator has seen.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions of the region's data centers.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// HeartbeatTime is when the operator of the region last looked at the store.
	//
	// +optional
	HeartbeatTime *metav1.Time `json:"heartbeatTime,omitempty"`
	// Summary holds the texts of the printed columns.
	//
	// +optional
	Summary Summary `json:"summary,omitzero"`
	// Topology is the topology that the parts of the region are configured with.
	//
	// +optional
	Topology TopologyStatus `json:"topology,omitzero"`
	// Rings has the state of each ring, as far as its data centers are in the region.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Rings []RingStatus `json:"rings,omitempty"`
	// Problems lists the pods of the region that do not serve: the first 32, by name.
	//
	// +optional
	// +listType=map
	// +listMapKey=pod
	// +kubebuilder:validation:MaxItems=32
	Problems []PodProblem `json:"problems,omitempty"`
}

// PodProblem is why a pod does not serve.
type PodProblem struct {
	// Pod is its name.
	//
	// +required
	Pod string `json:"pod"`
	// Reason is the cause in one word, such as ImagePullBackOff, OOMKilled, Unschedulable or VolumeInOtherZone.
	//
	// +required
	Reason string `json:"reason"`
	// Message has the words of the scheduler, the kubelet or the part.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// Summary holds the texts of the printed columns.
type Summary struct {
	// Rings counts the complete rings, of those with a data center in this cluster: "2/3".
	//
	// +optional
	Rings string `json:"rings,omitempty"`
	// DataCenters counts the ready data centers, of those in this cluster: "2/3".
	//
	// +optional
	DataCenters string `json:"dataCenters,omitempty"`
	// VisibilityLag is the greatest stability lag of the coordinators in this cluster: "120ms". It says how many of
	// them could not be asked: "120ms, 1 unknown".
	//
	// +optional
	VisibilityLag string `json:"visibilityLag,omitempty"`
}

// TopologyStatus is the topology that the parts in this cluster are configured with.
type TopologyStatus struct {
	// Epoch of the topology. It grows with every change.
	//
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
}

// DataCenterStatus is the state of one data center.
type DataCenterStatus struct {
	// Name of the data center.
	//
	// +required
	Name string `json:"name"`
	// Region of the data center.
	//
	// +required
	Region string `json:"region"`
	// Here is whether this cluster's operator runs the data center. If not, no other field but exclusion is set.
	//
	// +optional
	Here bool `json:"here"`
	// Coordinators counts the pods of coordinators.
	//
	// +optional
	Coordinators Count `json:"coordinators,omitzero"`
	// Caches counts the pods of caches.
	//
	// +optional
	Caches Count `json:"caches,omitzero"`
	// Shards counts the pods of shards.
	//
	// +optional
	Shards Count `json:"shards,omitzero"`
	// Etcd counts the pods of the etcd, if the operator runs one for the data center.
	//
	// +optional
	Etcd *Count `json:"etcd,omitempty"`
	// Groups has the members that hold the log of each coordinator, if there are several.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Groups []GroupStatus `json:"groups,omitempty"`
	// Edge is the state of the edge, if parts of other regions are reached through it.
	//
	// +optional
	Edge *EdgeStatus `json:"edge,omitempty"`
	// Images that the pods run: one per kind of container once a rollout has finished.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Images []string `json:"images,omitempty"`
	// Exclusion is how far this cluster goes by the exclusion of the data center. It is set if it was ever excluded,
	// wherever it runs.
	//
	// +optional
	Exclusion *ExclusionStatus `json:"exclusion,omitempty"`
	// StabilityLagMs is the age, in milliseconds, of the newest timestamp at or below which all writes of its
	// coordinators are in every ring.
	//
	// +optional
	StabilityLagMs *int64 `json:"stabilityLagMs,omitempty"`
	// IncompleteWrites is the number of writes of its coordinators that are not in every ring yet.
	//
	// +optional
	IncompleteWrites *int64 `json:"incompleteWrites,omitempty"`
}

// ExclusionStatus is how far the coordinators of this cluster go by the exclusion of a data center. Its own are left
// out if there are others.
type ExclusionStatus struct {
	// Count is how often the data center was excluded, by the configuration of the parts here.
	//
	// +required
	Count int32 `json:"count"`
	// State is Unknown: no coordinator here has said; Pending: not all of them go by the newest exclusion; LastCopy:
	// one does not begin, because the data center may have the only copy of some data; Excluded: all of them go by it,
	// and complete writes without shards of the data center; Backfilling: its shards are back, and writes wait for them
	// again, but not all serve yet; Back: writes wait for its shards again. If the data center runs in another cluster,
	// its shards may still be getting their data.
	//
	// +required
	// +kubebuilder:validation:Enum=Unknown;Pending;LastCopy;Excluded;Backfilling;Back
	State ExclusionState `json:"state"`
	// Coordinators is how many coordinators this cluster has that count, and Applied how many of them go by the newest
	// exclusion.
	//
	// +optional
	Coordinators int32 `json:"coordinators,omitempty"`
	// +optional
	Applied int32 `json:"applied,omitempty"`
	// Without is the number of shards of the data center that a coordinator here completes writes without, of Shards;
	// the greatest number.
	//
	// +optional
	Without int32 `json:"without,omitempty"`
	// +optional
	Shards int32 `json:"shards,omitempty"`
}

// ExclusionState says how far a cluster goes by the exclusion of a data center.
type ExclusionState string

// The states of exclusions.
const (
	ExclusionUnknown     ExclusionState = "Unknown"
	ExclusionPending     ExclusionState = "Pending"
	ExclusionLastCopy    ExclusionState = "LastCopy"
	ExclusionExcluded    ExclusionState = "Excluded"
	ExclusionBackfilling ExclusionState = "Backfilling"
	ExclusionBack        ExclusionState = "Back"
)

// GroupStatus is the state of the members that hold the log of one part, as the one that serves reports it.
type GroupStatus struct {
	// Part is the kind of the part, such as coordinator.
	//
	// +required
	Part string `json:"part"`
	// Index of the part in its data center, from 0.
	//
	// +required
	Index int32 `json:"index"`
	// Epoch of the group. Each change of its members or primary raises it.
	//
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// Primary is the number of the member that serves, from 1; 0: none is known to.
	//
	// +optional
	Primary int32 `json:"primary,omitempty"`
	// Wanted is the number of members that the spec asks for.
	//
	// +optional
	Wanted int32 `json:"wanted,omitempty"`
	// Members are the numbers of those that have every acknowledged write on their disks.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Members []int32 `json:"members,omitempty"`
	// Behind are the members that are missing, or do not follow.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Behind []GroupMemberStatus `json:"behind,omitempty"`
	// Problem says what keeps the group from changing; it is empty if nothing does.
	//
	// +optional
	Problem string `json:"problem,omitempty"`
}

// GroupMemberStatus is the state of a member that is missing, or does not follow.
type GroupMemberStatus struct {
	// Member is its number, from 1.
	//
	// +required
	Member int32 `json:"member"`
	// State is joining, silent, stalled, damaged or lost; it is empty if it is not known.
	//
	// +optional
	State string `json:"state,omitempty"`
	// BehindRecords and BehindBytes are about how much of the log it has not acknowledged, if it is sent any.
	//
	// +optional
	BehindRecords int64 `json:"behindRecords,omitempty"`
	// +optional
	BehindBytes int64 `json:"behindBytes,omitempty"`
}

// EdgeStatus is the state of the edge of a data center.
type EdgeStatus struct {
	// Pods counts the pods of the edge.
	Pods Count `json:"pods"`
	// Address is what the Service for other regions has been given: host:port of its load balancer or in the cluster;
	// or, for type NodePort, the port with a colon before it. If it is empty, the Service has none yet. edge.address
	// must lead there.
	//
	// +optional
	Address string `json:"address,omitempty"`
}

// Count counts pods.
type Count struct {
	// Ready pods.
	Ready int32 `json:"ready"`
	// Desired pods, by the spec.
	Desired int32 `json:"desired"`
	// Updated pods run what the spec asks for now.
	Updated int32 `json:"updated"`
}

// RingStatus is the state of one ring, as far as its data centers are in this cluster.
type RingStatus struct {
	// Name of the ring.
	//
	// +required
	Name string `json:"name"`
	// Availability is Complete (all shards in this cluster serve, and its data centers accept writes), Degraded (all
	// data can be read, but a coordinator or cache is missing), Unavailable (some data cannot be read from this ring)
	// or Unknown (none of its data centers is in this cluster).
	//
	// +required
	Availability Availability `json:"availability"`
	// DynamicSwitching is whether sessions in this ring may read from other rings.
	//
	// +optional
	DynamicSwitching DynamicSwitching `json:"dynamicSwitching,omitzero"`
	// LagMs is how far the ring is behind the coordinators in this cluster, in milliseconds.
	//
	// +optional
	LagMs *int64 `json:"lagMs,omitempty"`
	// Message names what is missing.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// DynamicSwitching is whether sessions may read from other rings than that of their data center.
type DynamicSwitching struct {
	// Enabled is whether they may.
	Enabled bool `json:"enabled"`
	// Reason is why they may not.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Availability of a ring.
// +kubebuilder:validation:Enum=Complete;Degraded;Unavailable;Unknown
type Availability string

// Values of Availability.
const (
	RingComplete    Availability = "Complete"
	RingDegraded    Availability = "Degraded"
	RingUnavailable Availability = "Unavailable"
	RingUnknown     Availability = "Unknown"
)
