package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DataCenter is a region or part of one, with its own coordinators, caches and shards.
//
// +kubebuilder:validation:XValidation:rule="self.region == oldSelf.region",messageExpression="'spec.dataCenters: region of ' + self.name + ' cannot be changed, because its volumes are there; set it back to ' + oldSelf.region",message="spec.dataCenters: region cannot be changed, because the volumes are there; restore it"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.exclusions) || has(self.exclusions) && self.exclusions >= oldSelf.exclusions",message="spec.dataCenters: exclusions cannot fall or be removed, because parts keep the greatest number that they have seen; restore it"
// +kubebuilder:validation:XValidation:rule="!has(self.keepsData) || has(self.exclusions) && self.keepsData <= self.exclusions",message="spec.dataCenters: keepsData is above exclusions; set it to exclusions, or remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.forceExclusion) || has(self.exclusions) && self.forceExclusion <= self.exclusions",message="spec.dataCenters: forceExclusion is above exclusions; set it to exclusions, or remove it"
// +kubebuilder:validation:XValidation:rule="has(self.latitude) == has(self.longitude)",message="spec.dataCenters: a data center has only one of latitude and longitude; set both, or neither"
type DataCenter struct {
	// Name of the data center. It becomes part of host names.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=22
	// +kubebuilder:validation:Pattern=`^[a-z]([a-z0-9-]*[a-z0-9])?$`
	Name string `json:"name"`
	// Region whose operator runs this data center.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`
	Region string `json:"region"`
	// Zones of the data center. Required, unless the placement of the store is SingleZone, which does not use them.
	//
	// +optional
	Zones Zones `json:"zones,omitzero"`
	// Coordinators accept writes.
	//
	// +optional
	// +kubebuilder:default={replicas: 2, volume: {size: "5Gi"}}
	Coordinators Coordinators `json:"coordinators,omitzero"`
	// Etcd keeps which members hold the log of each coordinator, and the data of each shard. It is used only if
	// coordinators.members or storage.replicas is more than 1.
	//
	// +optional
	// +kubebuilder:default={replicas: 3, volume: {size: "2Gi"}}
	Etcd Etcd `json:"etcd,omitzero"`
	// Caches hold copies of values that are in every ring.
	//
	// +optional
	// +kubebuilder:default={replicas: 2, memory: "1Gi"}
	Caches Caches `json:"caches,omitzero"`
	// Shards is the number of shards that hold this data center's part of its ring's data. It can be changed while the
	// store serves; the operator then moves data between shards.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Shards int32 `json:"shards,omitempty"`
	// Edge connects this data center with those of other regions. Required, for every data center, if the store has
	// several regions.
	//
	// +optional
	Edge *Edge `json:"edge,omitempty"`
	// Pods has settings of the pods of this data center, in addition to those of the store.
	//
	// +optional
	Pods PodSettings `json:"pods,omitzero"`
	// Exclusions is how often the data center was excluded, because it was taken for lost: all others then complete
	// writes without its shards, and these begin again with nothing when they are back. It must be raised in the
	// manifests of all regions, and never falls. kubectl causal forget dc raises it by one, after it has said what is
	// lost.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Exclusions int32 `json:"exclusions,omitempty"`
	// KeepsData is the number of the exclusion after which the shards of the data center go on with the data that they
	// have: two sides have excluded each other, and no ring has all data. Set it to exclusions, in the data centers of
	// the one ring whose data count; the others copy from it, and lose what only they have. Remove it when all shards
	// serve.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	KeepsData int32 `json:"keepsData,omitempty"`
	// ForceExclusion is the number of the exclusion that goes against the rule of tieBreaker, because a person knows
	// that the other side is down, or does not exclude anything. Set it to exclusions. If that is wrong, nobody has all
	// data after the cut. kubectl causal forget dc --force sets it.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	ForceExclusion int32 `json:"forceExclusion,omitempty"`
	// Latitude and longitude are where the data center is, in degrees; north and east are positive. They are for maps
	// only, such as the one of kubectl causal console. Set both or neither.
	//
	// +optional
	// +kubebuilder:validation:Minimum=-90
	// +kubebuilder:validation:Maximum=90
	Latitude *float64 `json:"latitude,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=-180
	// +kubebuilder:validation:Maximum=180
	Longitude *float64 `json:"longitude,omitempty"`
}

// Zones are the availability zones of a data center. Coordinators and caches run in the front zones and shards in the
// back zones, so that a write survives the loss of either side. The second member of a coordinator is in the back zones
// too, and so are all members of a shard.
//
// +kubebuilder:validation:XValidation:rule="self.frontend.all(z, !(z in self.backend))",messageExpression="'zones: ' + self.frontend.filter(z, z in self.backend)[0] + ' is in both frontend and backend, which must not fail together; keep it in one, or set spec.placement: SingleZone'",message="zones: a zone is in both frontend and backend, which must not fail together; keep it in one, or set spec.placement: SingleZone"
type Zones struct {
	// Frontend lists the zones of coordinators and caches.
	//
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Frontend []string `json:"frontend"`
	// Backend lists the zones of shards.
	//
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Backend []string `json:"backend"`
}

// Coordinators accept writes and keep them in a log until every ring has them.
type Coordinators struct {
	// Replicas is the number of coordinators. One is enough until its log is the limit. It can be changed at any time;
	// a coordinator that is removed first drains its log to every ring.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:XValidation:rule="self <= 16",message="coordinators.replicas: a data center can have at most 16 coordinators; use fewer"
	Replicas int32 `json:"replicas,omitempty"`
	// Members is the number of members that hold each coordinator's log, on hosts and volumes of their own: 1 to 3.
	// With more than 1, a write is acknowledged when all of them have it, and another member takes over from one that
	// is lost; this needs an etcd (see etcd). It can be changed while the store serves.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3
	Members int32 `json:"members,omitempty"`
	// Volume holds a coordinator's log, which uses up to three quarters of it.
	//
	// +optional
	// +kubebuilder:default={size: "5Gi"}
	Volume Volume `json:"volume,omitzero"`
	// Resources of a coordinator's container.
	//
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
}

// Caches hold a data center's copies of values that are in every ring.
type Caches struct {
	// Replicas is the number of caches. Changing it empties all of them.
	//
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	Replicas int32 `json:"replicas"`
	// Memory is the memory limit of each cache. Values use up to three quarters of it.
	//
	// +optional
	// +kubebuilder:default="1Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('64Mi')) >= 0",message="caches.memory: must be at least 64Mi; use more"
	Memory Size `json:"memory,omitempty"`
}

// Edge connects a data center with those of other regions. The operator runs its pods if the store has several regions:
// they pass on the connections between parts, which stay encrypted from end to end.
type Edge struct {
	// Address is host:port, where the edges of other regions reach this one; host is a DNS name or an IP address. It
	// must lead to the Service that the operator makes (see service), and be set before the Service has an address,
	// because the operators of other regions cannot read the Services of this cluster. The status has the address that
	// the Service has been given.
	//
	// +required
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([a-z0-9.-]*[a-z0-9])?|[[][0-9a-f:.]+[]]):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$')",message="edge.address: must be a DNS name or an IP address with a port; use one such as edge.us-east-1.example.com:15443"
	Address string `json:"address"`
	// Service configures the Service that the edges of other regions connect to.
	//
	// +optional
	// +kubebuilder:default={type: "LoadBalancer"}
	Service EdgeService `json:"service,omitzero"`
	// Replicas is the number of pods. Each of them can carry everything, so that one may fail.
	//
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Replicas int32 `json:"replicas,omitempty"`
	// Resources of the container. Default: requests of 100m CPU and 128Mi of memory, and a limit of 1152Mi of memory.
	// With a lower one, a busy proxy may be ended by the kernel. It uses up to two CPUs.
	//
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
}

// EdgeService configures the Service that the edges of other regions connect to.
//
// +kubebuilder:validation:XValidation:rule="!has(self.nodePort) || self.type != 'ClusterIP'",message="edge.service.nodePort: needs type NodePort or LoadBalancer; set the type, or remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.loadBalancerClass) || self.type == 'LoadBalancer'",message="edge.service.loadBalancerClass: needs type LoadBalancer; set the type, or remove it"
// +kubebuilder:validation:XValidation:rule="self.type != 'LoadBalancer' || oldSelf.type != 'LoadBalancer' || has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass) && (!has(self.loadBalancerClass) || self.loadBalancerClass == oldSelf.loadBalancerClass)",message="edge.service.loadBalancerClass: cannot be changed, because Kubernetes does not allow it; restore it, or change to another type and back"
type EdgeService struct {
	// Type is LoadBalancer (default: the cluster's cloud gives it an address), NodePort (a port of every node) or
	// ClusterIP (reachable in the cluster, for a gateway of your own, or clusters whose networks are joined).
	//
	// +optional
	// +kubebuilder:default=LoadBalancer
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`
	// Port of the Service. Default: that of edge.address.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// NodePort is the port of the nodes, for the types NodePort and LoadBalancer. Default: Kubernetes chooses one.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	NodePort int32 `json:"nodePort,omitempty"`
	// LoadBalancerClass selects what implements the type LoadBalancer. Default: that of the cluster.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	LoadBalancerClass string `json:"loadBalancerClass,omitempty"`
	// Annotations of the Service, which load balancers read.
	//
	// +optional
	Annotations Annotations `json:"annotations,omitempty"`
}

// Volume is the persistent volume of each pod.
//
// +kubebuilder:validation:XValidation:rule="quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0",messageExpression="'volume.size: a volume cannot shrink; set it to at least ' + oldSelf.size",message="volume.size: a volume cannot shrink; restore its size"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="volume.storageClassName: cannot be changed, because volumes cannot move; restore it, or, if none was ever bound, delete the store and create it again"
type Volume struct {
	// Size of the volume, such as 10Gi. It can grow if the storage class allows expansion, and cannot shrink.
	//
	// +optional
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('256Mi')) >= 0",message="volume.size: must be at least 256Mi; use more"
	Size Size `json:"size,omitempty"`
	// StorageClassName is the storage class of the volume. Default: the cluster's default class.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:MinLength=1
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// Size is a number of bytes, such as 512Mi or 10Gi.
//
// +kubebuilder:validation:MaxLength=20
// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$`
type Size string

// Quantity returns the size as a Kubernetes quantity, or 0 if it is malformed, which the schema rules out.
func (s Size) Quantity() resource.Quantity {
	q, err := resource.ParseQuantity(string(s))
	if err != nil {
		return resource.Quantity{}
	}
	return q
}

// Storage configures what holds the data of each shard.
//
// +kubebuilder:validation:XValidation:rule="self.engine == oldSelf.engine",messageExpression="'spec.storage.engine: cannot be changed, because data cannot be moved between engines; set it back to ' + oldSelf.engine",message="spec.storage.engine: cannot be changed, because data cannot be moved between engines; set it back"
// +kubebuilder:validation:XValidation:rule="self.engine != 'Redis' || has(self.image)",message="spec.storage.image: engine Redis needs an image; use one with redis-server 6.2 or newer, such as redis:7.4"
// +kubebuilder:validation:XValidation:rule="self.engine != 'Embedded' || !has(self.image)",message="spec.storage.image: engine Embedded runs inside the middleman and has no image; remove the field"
type Storage struct {
	// Engine is Redis (a stock Redis server beside each middleman) or Embedded (a Pebble database inside the
	// middleman).
	//
	// +required
	Engine Engine `json:"engine"`
	// Image of the storage server. Required by engine Redis.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^(([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)+(:[0-9]+)?|[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?:[0-9]+|localhost)/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?(@[a-zA-Z][a-zA-Z0-9]*([+._-][a-zA-Z][a-zA-Z0-9]*)*:[0-9a-fA-F]{32,})?$')",message="spec.storage.image: is not a reference of an image; use one such as redis:7.4"
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^|/)redis:v?([0-5]|6[.][01])([.@-].*)?$')",message="spec.storage.image: redis-server before 6.2 lacks what the store needs; use redis:6.2 or newer, such as redis:7.4"
	Image string `json:"image,omitempty"`
	// Replicas is the number of pods per shard, the members that hold its data on hosts and volumes of their own: 1 to
	// 3. With more than 1, a write is acknowledged when all of them have it, and another member takes over from one
	// that is lost; this needs an etcd in each data center (see dataCenters[].etcd). It can be changed while the store
	// serves.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 3",message="storage.replicas: a shard has 1 to 3 members; use one of these numbers"
	Replicas int32 `json:"replicas,omitempty"`
	// Volume holds the data of a shard.
	//
	// +optional
	// +kubebuilder:default={size: "10Gi"}
	Volume Volume `json:"volume,omitzero"`
	// Log is the volume of each pod's log, which uses up to three quarters of it. It is used only if replicas is more
	// than 1, or was. The default is four times what a member keeps of its log in memory, which is what it may be
	// behind.
	//
	// +optional
	// +kubebuilder:default={size: "1Gi"}
	Log Volume `json:"log,omitzero"`
	// Resources of the storage server's container.
	//
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// Middleman configures the process in front of each shard's storage.
	//
	// +optional
	Middleman Middleman `json:"middleman,omitzero"`
}

// LogVolume returns the volume of a pod's log, with the default of the schema, which specs lack that were recorded
// before there was any.
func (s *Storage) LogVolume() Volume {
	v := s.Log
	if v.Size == "" {
		v.Size = "1Gi"
	}
	return v
}

// Middleman configures the process in front of each shard's storage. Only the middleman writes to the storage.
type Middleman struct {
	// Resources of the middleman's container.
	//
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
}

// Engine is a storage engine.
// +kubebuilder:validation:Enum=Redis;Embedded
type Engine string

// The supported engines.
const (
	EngineRedis    Engine = "Redis"
	EngineEmbedded Engine = "Embedded"
)
