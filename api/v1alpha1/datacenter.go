package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DataCenter is a region, or a part of one.
//
// +kubebuilder:validation:XValidation:rule="self.region == oldSelf.region",messageExpression="'spec.dataCenters: region of ' + self.name + ' cannot be changed, since its volumes are there; set it back to ' + oldSelf.region",message="spec.dataCenters: region cannot be changed, since the volumes are there; set it back"
type DataCenter struct {
	// Name is part of host names.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=22
	// +kubebuilder:validation:Pattern=`^[a-z]([a-z0-9-]*[a-z0-9])?$`
	Name string `json:"name"`
	// Region names the installation of the operator that runs this data centre.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region"`
	// +required
	Zones Zones `json:"zones"`
	// +optional
	// +kubebuilder:default={replicas: 2, volume: {size: "5Gi"}}
	Coordinators Coordinators `json:"coordinators,omitzero"`
	// +optional
	// +kubebuilder:default={replicas: 2, memory: "1Gi"}
	Caches Caches `json:"caches,omitzero"`
	// Shards is over how many storage servers this data centre's share of its ring's data is spread. When it changes, data moves
	// while everything serves.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Shards int32 `json:"shards,omitempty"`
	// Edge is how other regions reach this data centre. Needed if there are several regions.
	//
	// +optional
	Edge *Edge `json:"edge,omitempty"`
	// NodeSelector is what nodes must have beside their zone.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// Zones are the availability zones of a data centre: coordinators and caches run in the front ones, shards in the back ones,
// so that a write outlives the loss of either.
//
// +kubebuilder:validation:XValidation:rule="self.frontend.all(z, !(z in self.backend))",messageExpression="'zones: ' + self.frontend.filter(z, z in self.backend)[0] + ' is in both frontend and backend, which must not fail together; leave it in one'",message="zones: a zone is in both frontend and backend, which must not fail together; leave it in one"
type Zones struct {
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Frontend []string `json:"frontend"`
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Backend []string `json:"backend"`
}

// Coordinators take writes and keep them in a log until they are in every ring.
type Coordinators struct {
	// Replicas may change at any time. One that leaves brings what it has to every ring before it goes.
	//
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:XValidation:rule="self <= 16",message="coordinators.replicas: a data centre has at most 16 coordinators; give fewer"
	Replicas int32 `json:"replicas,omitempty"`
	// Volume holds the log.
	//
	// +optional
	// +kubebuilder:default={size: "5Gi"}
	Volume Volume `json:"volume,omitzero"`
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
}

// Caches hold a data centre's copies of values that are in every ring.
type Caches struct {
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	Replicas int32 `json:"replicas"`
	// Memory of each cache. Three quarters of it are for values.
	//
	// +optional
	// +kubebuilder:default="1Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('64Mi')) >= 0",message="caches.memory: at least 64Mi is needed; give more"
	Memory Size `json:"memory,omitempty"`
}

// Edge is the entrance for other regions.
type Edge struct {
	// Address is host:port. The host is a DNS name, and any name in front of it must lead to the same place (a wildcard
	// record), since each part is called by a name of its own there.
	//
	// +required
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?:[0-9]{1,5}$') && !self.matches('^[0-9.]+:[0-9]+$')",message="edge.address: it is not a DNS name with a port; give one such as edge.us-east-1.example.com:15443"
	Address string `json:"address"`
}

// Volume is a persistent volume of each pod.
//
// +kubebuilder:validation:XValidation:rule="quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0",messageExpression="'volume.size: a volume cannot shrink; give at least ' + oldSelf.size",message="volume.size: a volume cannot shrink; give at least what it was"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="volume.storageClassName: it cannot be changed, since volumes do not move; set it back"
type Volume struct {
	// +optional
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('256Mi')) >= 0",message="volume.size: at least 256Mi is needed; give more"
	Size Size `json:"size,omitempty"`
	// StorageClassName: left out, the cluster's default.
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

// Quantity returns the size as Kubernetes has it. The schema has checked it; what is none is 0.
func (s Size) Quantity() resource.Quantity {
	q, err := resource.ParseQuantity(string(s))
	if err != nil {
		return resource.Quantity{}
	}
	return q
}

// Storage is what holds the data of one shard.
//
// +kubebuilder:validation:XValidation:rule="self.engine in ['Redis', 'Embedded']",messageExpression="'spec.storage.engine: ' + self.engine + ' is not there yet; give Redis or Embedded'",message="spec.storage.engine: this engine is not there yet; give Redis or Embedded"
// +kubebuilder:validation:XValidation:rule="self.engine == oldSelf.engine",messageExpression="'spec.storage.engine: it cannot be changed, since data is not moved between engines; set it back to ' + oldSelf.engine",message="spec.storage.engine: it cannot be changed, since data is not moved between engines; set it back"
// +kubebuilder:validation:XValidation:rule="self.replicas == 1",message="spec.storage.replicas: more than 1 needs chain replication, which is not there yet; give 1"
// +kubebuilder:validation:XValidation:rule="self.engine != 'Redis' || has(self.image)",message="spec.storage.image: Redis needs an image; give one that has redis-server 6.2 or newer, such as redis:7.4"
// +kubebuilder:validation:XValidation:rule="self.engine != 'Embedded' || !has(self.image)",message="spec.storage.image: the embedded engine has no image of its own; leave it out"
type Storage struct {
	// Engine is Redis (stock servers), or Embedded (a Pebble database in the middleman).
	//
	// +required
	Engine Engine `json:"engine"`
	// Image of the storage server.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
	// Replicas of each shard, one pod each.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Replicas int32 `json:"replicas,omitempty"`
	// +optional
	// +kubebuilder:default={size: "10Gi"}
	Volume Volume `json:"volume,omitzero"`
	// Resources of the storage server.
	//
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// Middleman is what stands in front of each shard.
	//
	// +optional
	Middleman Middleman `json:"middleman,omitzero"`
}

// Middleman stands in front of a shard's storage; it alone writes to it.
type Middleman struct {
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
}

// Engine is a storage engine.
// +kubebuilder:validation:Enum=Redis;Embedded;Cassandra;External
type Engine string

// The engines.
const (
	EngineRedis    Engine = "Redis"
	EngineEmbedded Engine = "Embedded"
)
