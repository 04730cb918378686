package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CausalStoreStatus is what the operator of this cluster sees. It speaks of the data centres of its own region.
type CausalStoreStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Summary is for people.
	//
	// +optional
	Summary Summary `json:"summary,omitzero"`
	// Topology is what the parts were told.
	//
	// +optional
	Topology TopologyStatus `json:"topology,omitzero"`
	// Endpoint is the host:port for clients without a sidecar.
	//
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	DataCenters []DataCenterStatus `json:"dataCenters,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Rings []RingStatus `json:"rings,omitempty"`
}

// Summary is what the columns show.
type Summary struct {
	// Rings that are complete, of those with a data centre here: "2/3".
	//
	// +optional
	Rings string `json:"rings,omitempty"`
	// DataCenters that are ready, of those that are run here: "2/3".
	//
	// +optional
	DataCenters string `json:"dataCenters,omitempty"`
	// VisibilityLag is the greatest stability lag of the coordinators here: "120ms".
	//
	// +optional
	VisibilityLag string `json:"visibilityLag,omitempty"`
}

// TopologyStatus is the topology that parts here are given.
type TopologyStatus struct {
	// Epoch grows with every change.
	//
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
}

// DataCenterStatus is the state of one data centre.
type DataCenterStatus struct {
	// +required
	Name string `json:"name"`
	// +required
	Region string `json:"region"`
	// Here says whether this cluster's operator runs it. Of the others it knows nothing more.
	//
	// +optional
	Here bool `json:"here"`
	// +optional
	Coordinators Count `json:"coordinators,omitzero"`
	// +optional
	Caches Count `json:"caches,omitzero"`
	// +optional
	Shards Count `json:"shards,omitzero"`
	// Images that its pods run, all the same once a change is through.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Images []string `json:"images,omitempty"`
	// StabilityLagMs is the age of the newest write of its coordinators below which all are in every ring, in milliseconds.
	//
	// +optional
	StabilityLagMs *int64 `json:"stabilityLagMs,omitempty"`
	// IncompleteWrites are writes of its coordinators that are not in every ring yet.
	//
	// +optional
	IncompleteWrites *int64 `json:"incompleteWrites,omitempty"`
}

// Count of pods.
type Count struct {
	Ready   int32 `json:"ready"`
	Desired int32 `json:"desired"`
	// Updated run what the spec asks for now.
	Updated int32 `json:"updated"`
}

// RingStatus is the state of one ring, as far as its data centres are here.
type RingStatus struct {
	// +required
	Name string `json:"name"`
	// Availability is Complete (all of its shards here serve, and its data centres here take writes), Degraded (all data can be
	// read, something else is missing), Unavailable (some data cannot be read), or Unknown (none of its data centres are here).
	//
	// +required
	Availability Availability `json:"availability"`
	// +optional
	DynamicSwitching DynamicSwitching `json:"dynamicSwitching,omitzero"`
	// LagMs is how far the ring is behind the coordinators here, in milliseconds.
	//
	// +optional
	LagMs *int64 `json:"lagMs,omitempty"`
	// Message says what is missing.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// DynamicSwitching says whether sessions may read other rings than their own.
type DynamicSwitching struct {
	Enabled bool `json:"enabled"`
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Availability of a ring.
// +kubebuilder:validation:Enum=Complete;Degraded;Unavailable;Unknown
type Availability string

// The availabilities of a ring.
const (
	RingComplete    Availability = "Complete"
	RingDegraded    Availability = "Degraded"
	RingUnavailable Availability = "Unavailable"
	RingUnknown     Availability = "Unknown"
)
