package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CausalStore is a causally consistent store: data centres, and the rings that each hold one copy of the data.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cstore,categories=all
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Rings",type=string,JSONPath=`.status.summary.rings`,description="Rings that are complete, of those with a data centre here"
// +kubebuilder:printcolumn:name="DCs",type=string,JSONPath=`.status.summary.dataCenters`,description="Data centres that are ready, of those that are run here"
// +kubebuilder:printcolumn:name="Visibility lag",type=string,JSONPath=`.status.summary.visibilityLag`,description="Time until a write is in every ring"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Engine",type=string,priority=1,JSONPath=`.spec.storage.engine`
// +kubebuilder:printcolumn:name="Epoch",type=integer,priority=1,JSONPath=`.status.topology.epoch`
// +kubebuilder:printcolumn:name="Paused",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Paused")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 20",message="metadata.name: at most 20 characters, since the names of the pods are made of it; give a shorter name"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="metadata.name: no dots, since it becomes part of host names; use hyphens"
type CausalStore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec CausalStoreSpec `json:"spec"`
	// +optional
	Status CausalStoreStatus `json:"status,omitzero"`
}

// CausalStoreList is a list of stores.
//
// +kubebuilder:object:root=true
type CausalStoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CausalStore `json:"items"`
}

// CausalStoreSpec is what is wanted. It is the same in every region.
//
// +kubebuilder:validation:XValidation:rule="self.dataCenters.all(d, self.rings.exists(r, d.name in r.dataCenters))",message="spec.rings: a data centre is in no ring; add it to the dataCenters of exactly one ring"
// +kubebuilder:validation:XValidation:rule="self.dataCenters.all(d, self.rings.filter(r, d.name in r.dataCenters).size() <= 1)",message="spec.rings: a data centre is in more than one ring; leave it in exactly one"
// +kubebuilder:validation:XValidation:rule="self.rings.all(r, r.dataCenters.all(n, self.dataCenters.exists(d, d.name == n)))",message="spec.rings: a ring names a data centre that spec.dataCenters does not list; correct the name, or declare the data centre"
// +kubebuilder:validation:XValidation:rule="self.dataCenters.all(d, has(d.edge) || d.region == self.dataCenters[0].region)",message="spec.dataCenters: a data centre in another region has no edge.address; give the host:port at which other regions reach it"
// +kubebuilder:validation:XValidation:rule="has(self.dataCenters[0].edge) || self.dataCenters.all(d, d.region == self.dataCenters[0].region)",message="spec.dataCenters: the first data centre has no edge.address, and others are in other regions; give the host:port at which other regions reach it"
// +kubebuilder:validation:XValidation:rule="self.dataCenters.map(d, d.name) == oldSelf.dataCenters.map(d, d.name)",message="spec.dataCenters: data centres cannot be added, removed, renamed or reordered, since data is not moved between them yet; leave the list as it was, or make a new store"
// +kubebuilder:validation:XValidation:rule="self.rings.map(r, r.name) == oldSelf.rings.map(r, r.name) && self.rings.all(r, oldSelf.rings.all(o, o.name != r.name || o.dataCenters == r.dataCenters))",message="spec.rings: rings cannot be changed, since data is not moved between them yet; leave them as they were, or make a new store"
// +kubebuilder:validation:XValidation:rule="self.binding == oldSelf.binding",message="spec.binding: it cannot be changed, since all parts must have the same at any time; set it back"
type CausalStoreSpec struct {
	// Image of every part but the storage. Left out, it is the operator's own; an upgrade of the operator does not change it in
	// a store that runs.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
	// ImagePullSecrets are used for all images.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []PullSecret `json:"imagePullSecrets,omitempty"`
	// Storage holds the data of a shard.
	//
	// +required
	Storage Storage `json:"storage"`
	// DataCenters of all regions. Their order numbers the coordinators, so it must stay.
	//
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	DataCenters []DataCenter `json:"dataCenters"`
	// Rings of data centres. Each ring holds one full copy of the data; each data centre is in exactly one.
	//
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Rings []Ring `json:"rings"`
	// +optional
	// +kubebuilder:default={}
	Session Session `json:"session,omitzero"`
	// Binding is Dynamic (a session may read any ring that has what it has seen), or Static (it stays with its data centre's).
	//
	// +optional
	// +kubebuilder:default=Dynamic
	Binding Binding `json:"binding,omitempty"`
	// +optional
	// +kubebuilder:default={default: "Causal"}
	Consistency Consistency `json:"consistency,omitzero"`
	// +optional
	// +kubebuilder:default={mode: "LoopbackNames"}
	Injection Injection `json:"injection,omitzero"`
	// +optional
	Access Access `json:"access,omitzero"`
	// ZoneLabel is the node label whose values are the names of zones.
	//
	// +optional
	// +kubebuilder:default="topology.kubernetes.io/zone"
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:MinLength=1
	ZoneLabel string `json:"zoneLabel,omitempty"`
	// Paused stops the operator from changing anything; status goes on.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`
	// DeletionPolicy says what becomes of the volumes when the store is deleted.
	//
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// PullSecret names a Secret of the store's namespace.
type PullSecret struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Ring is a set of data centres that hold one full copy of the data together.
type Ring struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Name string `json:"name"`
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=22
	DataCenters []string `json:"dataCenters"`
}

// Session is what a session is and how it reads.
type Session struct {
	// Scope is Pod (all connections of a pod's sidecar are one session), or Connection. Pods without a sidecar always have
	// one session per connection.
	//
	// +optional
	// +kubebuilder:default=Pod
	Scope Scope `json:"scope,omitempty"`
	// Reads is how a read of several keys reads: Latest, or Snapshot.
	//
	// +optional
	// +kubebuilder:default=Latest
	Reads Reads `json:"reads,omitempty"`
}

// Consistency says how strong reads and writes are.
//
// +kubebuilder:validation:XValidation:rule="self.default == 'Causal'",messageExpression="'spec.consistency.default: ' + self.default + ' is not there yet; give Causal'",message="spec.consistency.default: only Causal is there yet; give Causal"
// +kubebuilder:validation:XValidation:rule="!has(self.rules) || self.rules.size() == 0",message="spec.consistency.rules: levels per key are not there yet; leave the rules out"
type Consistency struct {
	// +optional
	// +kubebuilder:default=Causal
	Default Level `json:"default,omitempty"`
	// Rules give keys another level; the first that matches counts.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Rules []ConsistencyRule `json:"rules,omitempty"`
}

// ConsistencyRule gives keys a level.
type ConsistencyRule struct {
	// Keys is a pattern, with * for any characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Keys string `json:"keys"`
	// +required
	Level Level `json:"level"`
}

// Injection says how an app's traffic reaches the sidecar that was injected into its pod.
type Injection struct {
	// Mode is LoopbackNames (the names of the store's Services lead to the sidecar, by hostAliases), Redirect (their addresses do, by
	// rules in the pod's network, for which an init container needs NET_ADMIN), or Explicit (the app is told by environment variable
	// CAUSALSTORE_ADDRESS). A pod's annotation causalstore.io/injection-mode counts more.
	//
	// +optional
	// +kubebuilder:default=LoopbackNames
	Mode InjectionMode `json:"mode,omitempty"`
}

// Access says who may use the store's Services, beside the pods of its own namespace.
type Access struct {
	// Namespaces whose pods may connect.
	//
	// +optional
	Namespaces *metav1.LabelSelector `json:"namespaces,omitempty"`
}

// Binding is how sessions are bound to rings.
// +kubebuilder:validation:Enum=Dynamic;Static
type Binding string

// Scope is what one session is.
// +kubebuilder:validation:Enum=Pod;Connection
type Scope string

// Reads is how several keys are read.
// +kubebuilder:validation:Enum=Latest;Snapshot
type Reads string

// Level is a consistency level.
// +kubebuilder:validation:Enum=Causal;Eventual;Strong
type Level string

// InjectionMode is how traffic reaches the sidecar.
// +kubebuilder:validation:Enum=LoopbackNames;Redirect;Explicit
type InjectionMode string

// DeletionPolicy is what becomes of the volumes.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// The words of the enumerations.
const (
	BindingDynamic Binding = "Dynamic"
	BindingStatic  Binding = "Static"

	ScopePod        Scope = "Pod"
	ScopeConnection Scope = "Connection"

	ReadsLatest   Reads = "Latest"
	ReadsSnapshot Reads = "Snapshot"

	LevelCausal Level = "Causal"

	InjectLoopbackNames InjectionMode = "LoopbackNames"
	InjectRedirect      InjectionMode = "Redirect"
	InjectExplicit      InjectionMode = "Explicit"

	DeletionRetain DeletionPolicy = "Retain"
	DeletionDelete DeletionPolicy = "Delete"
)
