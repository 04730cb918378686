package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CausalStore is a causally consistent store: a set of data centers, grouped into rings that each hold one copy of the
// data.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cstore,categories=all
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Rings",type=string,JSONPath=`.status.summary.rings`,description="Complete rings, of those with a data center in this cluster"
// +kubebuilder:printcolumn:name="DCs",type=string,JSONPath=`.status.summary.dataCenters`,description="Ready data centers, of those in this cluster"
// +kubebuilder:printcolumn:name="Visibility lag",type=string,JSONPath=`.status.summary.visibilityLag`,description="Time until a write is in every ring"
// +kubebuilder:printcolumn:name="Heartbeat",type=date,JSONPath=`.status.heartbeatTime`,description="Time since the operator last looked at the store"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Engine",type=string,priority=1,JSONPath=`.spec.storage.engine`
// +kubebuilder:printcolumn:name="Epoch",type=integer,priority=1,JSONPath=`.status.topology.epoch`
// +kubebuilder:printcolumn:name="Paused",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Paused")].status`
// +kubebuilder:printcolumn:name="Under-replicated",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="UnderReplicated")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 20",message="metadata.name: must have at most 20 characters, because the names of pods contain it; use a shorter name"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="metadata.name: must not contain dots, because host names contain it; use hyphens"
// +kubebuilder:validation:XValidation:rule="!self.spec.dataCenters.exists(d, has(d.exclusions) && (!has(d.forceExclusion) || d.forceExclusion < d.exclusions) && oldSelf.spec.dataCenters.exists(o, o.name == d.name && (!has(o.exclusions) || d.exclusions > o.exclusions))) || [self.spec.dataCenters.filter(d, has(d.exclusions) && !(has(self.status) && has(self.status.dataCenters) && self.status.dataCenters.exists(s, s.name == d.name && has(s.exclusion) && s.exclusion.state == 'Back' && s.exclusion.count >= d.exclusions))).map(d, d.name)].exists(away, [self.spec.rings.filter(r, !r.dataCenters.exists(n, n in away))].exists(left, left.size() * 2 > self.spec.rings.size() || left.size() * 2 == self.spec.rings.size() && has(self.spec.tieBreaker) && left.exists(r, self.spec.tieBreaker in r.dataCenters)))",message="spec.dataCenters: exclusions leaves too few rings: more than half of all rings must be left, or half of them with the ring of spec.tieBreaker, because the other side may only be cut off, and exclude these; bring data centers back, or, if you know that the others are down and exclude nobody, set forceExclusion of the data center to its exclusions"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.tieBreaker) || has(oldSelf.spec.tieBreaker) || !has(self.status) || !has(self.status.conditions) || !self.status.conditions.exists(c, c.type == 'PeersConnected' && c.status == 'False')",message="spec.tieBreaker: cannot be set while other data centers are away or behind (condition PeersConnected), because those may set another one; set it when they are back"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.clients) || !has(self.spec.clients.usersSecret) || !(self.spec.clients.usersSecret in [self.metadata.name + '-keys', self.metadata.name + '-acl'])",message="spec.clients.usersSecret: the operator makes a Secret of this name; use another one"
type CausalStore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	//
	// +required
	Spec CausalStoreSpec `json:"spec"`
	// Status is the observed state.
	//
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

// CausalStoreSpec is the desired state of a store. It must be the same in the clusters of all regions.
//
// +kubebuilder:validation:XValidation:rule="self.dataCenters.all(d, self.rings.exists(r, d.name in r.dataCenters))",message="spec.rings: a data center is in no ring; add it to the dataCenters of exactly one ring"
// +kubebuilder:validation:XValidation:rule="self.dataCenters.all(d, self.rings.filter(r, d.name in r.dataCenters).size() <= 1)",message="spec.rings: a data center is in more than one ring; keep it in exactly one"
// +kubebuilder:validation:XValidation:rule="self.rings.all(r, r.dataCenters.all(n, self.dataCenters.exists(d, d.name == n)))",message="spec.rings: a ring names a data center that spec.dataCenters does not list; correct the name or add the data center"
// +kubebuilder:validation:XValidation:rule="self.dataCenters.all(d, has(d.edge)) || self.dataCenters.all(d, d.region == self.dataCenters[0].region)",message="spec.dataCenters: a data center has no edge.address, although the store has several regions; set it to the host:port at which other regions reach it"
// +kubebuilder:validation:XValidation:rule="self.dataCenters.all(d, !has(d.edge) || self.dataCenters.filter(o, has(o.edge) && o.edge.address == d.edge.address).size() == 1)",message="spec.dataCenters: two data centers have the same edge.address, and each has an edge of its own; correct one"
// +kubebuilder:validation:XValidation:rule="self.dataCenters.all(d, !self.dataCenters.exists(o, o.name == d.name + '-edge' || o.name == d.name + '-etcd' || o.name == d.name + '-ingress' || o.name == d.name + '-parts'))",message="spec.dataCenters: a data center is called like another one with -edge, -etcd, -ingress or -parts appended, and Services of that one have these names; use another name"
// +kubebuilder:validation:XValidation:rule="has(self.id) || self.dataCenters.all(d, d.region == self.dataCenters[0].region)",message="spec.id: a store with data centers in several regions needs an id that is the same in all clusters; set it to a new UUID, such as the output of uuidgen"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.id) || has(self.id) && self.id == oldSelf.id",message="spec.id: cannot be changed or removed, because the certificates of all parts carry it; restore it"
// +kubebuilder:validation:XValidation:rule="self.dataCenters.map(d, d.name) == oldSelf.dataCenters.map(d, d.name)",message="spec.dataCenters: data centers cannot be added, removed, renamed or reordered, because data cannot be moved between them yet; restore the list, or create a new store"
// +kubebuilder:validation:XValidation:rule="self.rings.map(r, r.name) == oldSelf.rings.map(r, r.name) && self.rings.all(r, oldSelf.rings.all(o, o.name != r.name || o.dataCenters == r.dataCenters))",message="spec.rings: rings cannot be changed, because data cannot be moved between them yet; restore them, or create a new store"
// +kubebuilder:validation:XValidation:rule="!(has(self.session) && has(self.session.scope) && self.session.scope == 'DataCenter') || has(oldSelf.session) && has(oldSelf.session.scope) && oldSelf.session.scope == 'DataCenter' || self.dataCenters.all(d, !has(d.coordinators) || !has(d.coordinators.replicas) || d.coordinators.replicas == 1)",message="spec.session.scope: cannot become DataCenter while a data center has several coordinators, because each has written keys whose home would be another one; set coordinators.replicas to 1, wait until the store is Ready, and then set the scope, or create a new store"
// +kubebuilder:validation:XValidation:rule="!(has(self.session) && has(self.session.scope) && self.session.scope == 'DataCenter' || has(oldSelf.session) && has(oldSelf.session.scope) && oldSelf.session.scope == 'DataCenter') || self.dataCenters.all(d, oldSelf.dataCenters.all(o, o.name != d.name || (has(d.coordinators) && has(d.coordinators.replicas) ? d.coordinators.replicas : 1) == (has(o.coordinators) && has(o.coordinators.replicas) ? o.coordinators.replicas : 1)))",message="spec.dataCenters: coordinators.replicas cannot be changed while session.scope is or was DataCenter, because the homes of keys would move; set the scope to Pod, wait until the store is Ready, and change it; the scope can be DataCenter again with one coordinator in each data center"
// +kubebuilder:validation:XValidation:rule="self.rings.size() > 1 || !self.dataCenters.exists(d, has(d.exclusions))",message="spec.dataCenters: exclusions needs several rings, because nobody else has the data of the only one; remove it"
// +kubebuilder:validation:XValidation:rule="self.rings.size() == 1 || [self.dataCenters.filter(d, has(d.exclusions) && oldSelf.dataCenters.exists(o, o.name == d.name && (!has(o.exclusions) || d.exclusions > o.exclusions))).map(d, d.name)].exists(raised, self.rings.exists(r, !r.dataCenters.exists(n, n in raised)))",message="spec.dataCenters: exclusions is raised in every ring at once, so that nobody may have the only copy of some data; leave one ring as it is"
// +kubebuilder:validation:XValidation:rule="self.rings.filter(r, r.dataCenters.exists(n, self.dataCenters.exists(d, d.name == n && has(d.keepsData)))).size() <= 1",message="spec.dataCenters: keepsData is set in several rings, whose data would differ for good; set it in one ring, from which the others copy"
// +kubebuilder:validation:XValidation:rule="!has(self.tieBreaker) || self.dataCenters.exists(d, d.name == self.tieBreaker)",message="spec.tieBreaker: names a data center that spec.dataCenters does not list; correct the name, or remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.tieBreaker) || !has(oldSelf.tieBreaker) || self.tieBreaker == oldSelf.tieBreaker",message="spec.tieBreaker: cannot be changed to another data center at once, because each side of a cut could have its own; remove it in the manifests of all regions, and then set it"
// +kubebuilder:validation:XValidation:rule="self.binding == oldSelf.binding",message="spec.binding: cannot be changed, because all parts must use the same binding at all times; restore it"
// +kubebuilder:validation:XValidation:rule="self.placement == 'SingleZone' || self.dataCenters.all(d, has(d.zones))",message="spec.dataCenters: a data center has no zones; set zones.frontend and zones.backend, or spec.placement: SingleZone for a cluster with one zone"
// +kubebuilder:validation:XValidation:rule="!has(self.injection) || self.injection.mode != 'Redirect' || !has(self.clients) || !has(self.clients.front) || !has(self.clients.front.enabled) || self.clients.front.enabled",message="spec.injection.mode: Redirect needs the Services of the front, which is off; use LoopbackNames or Explicit"
type CausalStoreSpec struct {
	// ID joins the clusters of the store: it is part of the identity of every part, and parts with another one are
	// refused. It is a UUID in lower case, must be the same in all clusters, and cannot be changed. Required if the
	// store has several regions. Default: an id that the operator chooses once and keeps with the volumes.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$')",message="spec.id: must be a UUID in lower case; use the output of uuidgen, such as 4f9c2c1e-6a0b-4d55-9a54-0c3f7d1b8e21"
	ID string `json:"id,omitempty"`
	// Image is the container image of all parts except the storage. Default: the image of the operator that first
	// reconciled the store; an upgrade of the operator does not change it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^(([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)+(:[0-9]+)?|[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?:[0-9]+|localhost)/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?(@[a-zA-Z][a-zA-Z0-9]*([+._-][a-zA-Z][a-zA-Z0-9]*)*:[0-9a-fA-F]{32,})?$')",message="spec.image: is not a reference of an image; use one such as registry.example.com/causalstore:v1"
	Image string `json:"image,omitempty"`
	// ImagePullSecrets are the Secrets used to pull all images.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []PullSecret `json:"imagePullSecrets,omitempty"`
	// Storage configures the storage of the shards.
	//
	// +required
	Storage Storage `json:"storage"`
	// DataCenters lists the data centers of all regions. Their order numbers the coordinators, so it cannot change.
	//
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	DataCenters []DataCenter `json:"dataCenters"`
	// Rings groups the data centers. Each ring holds one full copy of the data; each data center is in exactly one
	// ring.
	//
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Rings []Ring `json:"rings"`
	// TieBreaker names the data center of which the side may exclude other data centers if it has half of the rings.
	// Whoever excludes must leave more than half of all rings, or half of them with the ring of the tie-breaker, so
	// that two sides that are cut off from each other cannot exclude each other. Without one nobody can in a store with
	// two rings, except by forceExclusion. It does nothing by itself. Choose the data center that is to go on, before
	// anything is cut.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=22
	TieBreaker string `json:"tieBreaker,omitempty"`
	// Session configures sessions: what a session is, and which versions it reads.
	//
	// +optional
	// +kubebuilder:default={}
	Session Session `json:"session,omitzero"`
	// NearCopies makes sidecars and fronts keep copies of hot keys, so that reads of these do not leave the pod. By
	// default they do with scope DataCenter, up to 8Mi, and not with the other scopes.
	//
	// +optional
	NearCopies *NearCopies `json:"nearCopies,omitempty"`
	// Binding is Dynamic (a session may read from any ring that has everything the session has seen) or Static (a
	// session reads only from its data center's ring).
	//
	// +optional
	// +kubebuilder:default=Dynamic
	Binding Binding `json:"binding,omitempty"`
	// Consistency configures the consistency levels of keys.
	//
	// +optional
	// +kubebuilder:default={default: "Causal"}
	Consistency Consistency `json:"consistency,omitzero"`
	// Injection configures how an app's traffic reaches the sidecar in its pod.
	//
	// +optional
	// +kubebuilder:default={mode: "LoopbackNames"}
	Injection Injection `json:"injection,omitzero"`
	// Access selects which namespaces may use the store, besides its own.
	//
	// +optional
	Access Access `json:"access,omitzero"`
	// Placement is Zones (coordinators and caches of a data center run in its front zones, and shards in its back
	// zones) or SingleZone (pods run on any node, for clusters with one zone or one node). With SingleZone, the loss of
	// the zone is the loss of everything, and that of a node may be.
	//
	// +optional
	// +kubebuilder:default=Zones
	Placement Placement `json:"placement,omitempty"`
	// Pods has settings of all pods of the store, to which data centers can add their own.
	//
	// +optional
	Pods PodSettings `json:"pods,omitzero"`
	// ServiceAccount configures the ServiceAccount of the pods.
	//
	// +optional
	ServiceAccount ServiceAccount `json:"serviceAccount,omitzero"`
	// Clients configures how Redis clients connect: users with passwords, TLS, and whether clients without a sidecar
	// are served.
	//
	// +optional
	Clients Clients `json:"clients,omitzero"`
	// ZoneLabel is the node label that holds the name of a node's zone.
	//
	// +optional
	// +kubebuilder:default="topology.kubernetes.io/zone"
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:MinLength=1
	ZoneLabel string `json:"zoneLabel,omitempty"`
	// Paused stops the operator from changing anything. Status is still updated, and the store keeps serving.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`
	// DeletionPolicy is Retain (volumes, keys and record are kept when the store is deleted, and a store of the same
	// name uses them again) or Delete (they are deleted with the store).
	//
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// PullSecret references a Secret in the store's namespace.
type PullSecret struct {
	// Name of the Secret.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Ring is a set of data centers that together hold one full copy of the data.
type Ring struct {
	// Name of the ring, unique in the store.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Name string `json:"name"`
	// DataCenters lists the names of the ring's data centers. Their order is irrelevant.
	//
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=22
	DataCenters []string `json:"dataCenters"`
}

// Session configures sessions.
type Session struct {
	// Scope is DataCenter (all clients of a data center see at once what any of them has written, and their
	// read-modify-write commands are exact among each other, as with one Redis; all connections to a pod's sidecar share
	// one session), Pod (the same without what is said of the data center), or Connection (each connection is a session).
	// Pods without a sidecar always have one session per connection. With DataCenter, the number of coordinators cannot be changed, and reads are Snapshot.
	//
	// +optional
	// +kubebuilder:default=DataCenter
	Scope Scope `json:"scope,omitempty"`
	// Reads is Latest (reads return the latest version they find, which may bind the session to some rings) or Snapshot
	// (reads prefer versions that are in every ring).
	//
	// +optional
	// +kubebuilder:default=Latest
	Reads Reads `json:"reads,omitempty"`
}

// NearCopies configures the copies of hot keys that sidecars and fronts keep.
type NearCopies struct {
	// MaxBytes bounds the memory of the copies of each sidecar and front: 64Ki to 64Mi, a quarter of the memory limit
	// of a sidecar, or 0 for no copies. A copy takes at most a thirty-second of it, and 64Ki. A change reaches sidecars
	// when their pods restart.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('64Ki')) >= 0 || quantity(self).compareTo(quantity('0')) == 0",message="nearCopies.maxBytes: must be at least 64Ki; use more, or 0 for no near copies"
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('64Mi')) <= 0",message="nearCopies.maxBytes: must be at most 64Mi, a quarter of the memory of a sidecar; use less"
	MaxBytes Size `json:"maxBytes"`
}

// Consistency configures consistency levels.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rules) || self.rules.size() == 0",message="spec.consistency.rules: levels per key are not supported yet; remove the rules"
type Consistency struct {
	// Default is the level of keys that no rule matches. Only Causal is supported.
	//
	// +optional
	// +kubebuilder:default=Causal
	Default Level `json:"default,omitempty"`
	// Rules set other levels for some keys; the first matching rule applies. Not supported yet.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Rules []ConsistencyRule `json:"rules,omitempty"`
}

// ConsistencyRule sets the level of the keys that match a pattern.
type ConsistencyRule struct {
	// Keys is a pattern in which * matches any characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Keys string `json:"keys"`
	// Level of the keys.
	//
	// +required
	Level Level `json:"level"`
}

// Injection configures how an app's traffic reaches the sidecar in its pod.
type Injection struct {
	// Mode is LoopbackNames (hostAliases resolve the names of the store's Services to the sidecar), Redirect (nftables
	// rules in the pod's network send connections to the Services' addresses to the sidecar; an init container needs
	// NET_ADMIN to install them) or Explicit (environment variable CAUSALSTORE_ADDRESS has the sidecar's address). A
	// pod's annotation causalstore.io/injection-mode takes precedence.
	//
	// +optional
	// +kubebuilder:default=LoopbackNames
	Mode InjectionMode `json:"mode,omitempty"`
}

// Access selects which pods may use the store's Services, besides those in its own namespace.
type Access struct {
	// Namespaces selects by label the namespaces whose pods may connect and have sidecars.
	//
	// +optional
	Namespaces *metav1.LabelSelector `json:"namespaces,omitempty"`
}

// Binding is how sessions are bound to rings.
// +kubebuilder:validation:Enum=Dynamic;Static
type Binding string

// Scope is what shares one session.
// +kubebuilder:validation:Enum=Pod;Connection;DataCenter
type Scope string

// Reads is which versions reads return.
// +kubebuilder:validation:Enum=Latest;Snapshot
type Reads string

// Level is the consistency that a store promises. What a single read asks for is Reads, and causal.Level in the
// sidecars, which is another thing.
// +kubebuilder:validation:Enum=Causal
type Level string

// InjectionMode is how an app's traffic reaches its sidecar.
// +kubebuilder:validation:Enum=LoopbackNames;Redirect;Explicit
type InjectionMode string

// Placement is whether pods run in certain zones.
// +kubebuilder:validation:Enum=Zones;SingleZone
type Placement string

// DeletionPolicy is whether volumes are kept when a store is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// Values of the enumerations.
const (
	BindingDynamic Binding = "Dynamic"
	BindingStatic  Binding = "Static"

	ScopePod        Scope = "Pod"
	ScopeConnection Scope = "Connection"
	ScopeDataCenter Scope = "DataCenter"

	ReadsLatest   Reads = "Latest"
	ReadsSnapshot Reads = "Snapshot"

	LevelCausal Level = "Causal"

	InjectLoopbackNames InjectionMode = "LoopbackNames"
	InjectRedirect      InjectionMode = "Redirect"
	InjectExplicit      InjectionMode = "Explicit"

	PlacementZones      Placement = "Zones"
	PlacementSingleZone Placement = "SingleZone"

	DeletionRetain DeletionPolicy = "Retain"
	DeletionDelete DeletionPolicy = "Delete"
)

// SingleZone reports whether pods run on any node, whatever its zone.
func (s *CausalStoreSpec) SingleZone() bool { return s.Placement == PlacementSingleZone }

// ZonesOf returns the zones in which the pods of a data center must run. With placement SingleZone there are none.
func (s *CausalStoreSpec) ZonesOf(dc *DataCenter) Zones {
	if s.SingleZone() {
		return Zones{}
	}
	return dc.Zones
}
