package v1alpha1

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Etcd keeps which members hold the log of each coordinator and the data of each shard of a data center, and which of
// them leads. The operator runs one for each data center that needs it, unless endpoints name one outside of the store.
// Reads and writes do not need it; without it, a coordinator or shard that fails is not replaced by another of its
// members.
//
// +kubebuilder:validation:XValidation:rule="has(self.endpoints) == has(self.secretName)",message="etcd.endpoints: an etcd outside of the store needs endpoints and secretName; set both, or remove both"
// +kubebuilder:validation:XValidation:rule="!has(self.endpoints) || !has(self.image) && !has(self.zones)",message="etcd.endpoints: image and zones are of an etcd that the operator runs; remove them, or endpoints and secretName"
// +kubebuilder:validation:XValidation:rule="quantity(self.volume.size).compareTo(quantity('1Gi')) >= 0",message="etcd.volume.size: must be at least 1Gi; use more"
type Etcd struct {
	// Replicas is the number of pods: 3, so that one may fail, or 1. It cannot be changed while coordinators or shards
	// have several members.
	//
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:XValidation:rule="self == 1 || self == 3",message="etcd.replicas: must be 1 or 3; with 2, each of them could stop the other"
	Replicas int32 `json:"replicas,omitempty"`
	// Image of etcd, 3.6 or newer. Default: that of the operator.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^(([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)+(:[0-9]+)?|[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?:[0-9]+|localhost)/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?(@[a-zA-Z][a-zA-Z0-9]*([+._-][a-zA-Z][a-zA-Z0-9]*)*:[0-9a-fA-F]{32,})?$')",message="etcd.image: is not a reference of an image; use one such as registry.example.com/etcd:v3.6.8"
	Image string `json:"image,omitempty"`
	// Volume holds the data of a pod.
	//
	// +optional
	// +kubebuilder:default={size: "2Gi"}
	Volume Volume `json:"volume,omitzero"`
	// Resources of the container. Default: requests of 50m CPU and 128Mi of memory, and a limit of 512Mi of memory.
	//
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// Zones of the pods. Default: the front and the back zones of the data center, so that with three zones in all any
	// one may go. With one of each, name a third one here.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Zones []string `json:"zones,omitempty"`
	// Endpoints are the addresses of an etcd that somebody else runs, as https://HOST:PORT.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=9
	// +kubebuilder:validation:items:MaxLength=270
	// +kubebuilder:validation:XValidation:rule="self.all(e, e.matches('^https://([a-z0-9]([a-z0-9.-]*[a-z0-9])?|[[][0-9a-f:.]+[]]):[1-9][0-9]{0,4}$'))",message="etcd.endpoints: an address is not https://HOST:PORT; use one such as https://etcd.example.com:2379"
	Endpoints []string `json:"endpoints,omitempty"`
	// SecretName is the Secret, in the namespace of the store, with ca.crt, tls.crt and tls.key for the etcd that
	// endpoints name.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
}

// WithDefaults returns the etcd with the defaults of the schema, which specs lack that were recorded before there was
// any.
func (e Etcd) WithDefaults() Etcd {
	if e.Replicas == 0 {
		e.Replicas = 3
	}
	if e.Volume.Size == "" {
		e.Volume.Size = "2Gi"
	}
	return e
}

// IsExternal reports whether somebody else runs the etcd.
func (e Etcd) IsExternal() bool { return len(e.Endpoints) > 0 }

// EtcdZonesOf returns the zones in which the pods of a data center's etcd must run. With placement SingleZone there are
// none.
func (s *CausalStoreSpec) EtcdZonesOf(dc *DataCenter) []string {
	switch zones := s.ZonesOf(dc); {
	case s.SingleZone():
		return nil
	case len(dc.Etcd.Zones) > 0:
		return dc.Etcd.Zones
	default:
		return append(append([]string(nil), zones.Frontend...), zones.Backend...)
	}
}

// MemberZonesOf returns the zones of a member, from 1, of a data center's coordinators: of the first one the front
// zones, of the second one the back zones, so that either side may go. The third one is in what zones its etcd has
// besides, or else in the front zones. With placement SingleZone there are none.
func (s *CausalStoreSpec) MemberZonesOf(dc *DataCenter, member int) []string {
	zones := s.ZonesOf(dc)
	switch member {
	case 1:
		return zones.Frontend
	case 2:
		return zones.Backend
	}
	var others []string
	for _, z := range s.EtcdZonesOf(dc) {
		if !slices.Contains(zones.Frontend, z) && !slices.Contains(zones.Backend, z) {
			others = append(others, z)
		}
	}
	if len(others) > 0 {
		return others
	}
	return zones.Frontend
}

var etcdEndpoint = regexp.MustCompile(`^https://([a-z0-9]([a-z0-9.-]*[a-z0-9])?|[[][0-9a-f:.]+[]]):[1-9][0-9]{0,4}$`)

func (e Etcd) validate(p *problems) {
	e = e.WithDefaults()
	p.require(e.IsExternal() == (e.SecretName != ""),
		"etcd.endpoints: an etcd outside of the store needs endpoints and secretName; set both, or remove both")
	p.require(!e.IsExternal() || e.Image == "" && len(e.Zones) == 0,
		"etcd.endpoints: image and zones are of an etcd that the operator runs; remove them, or endpoints "+
			"and secretName")
	p.require(e.Volume.Size.atLeast("1Gi"), "etcd.volume.size: must be at least 1Gi; use more")
	p.require(e.Volume.Size.atLeast("256Mi"), "volume.size: must be at least 256Mi; use more")
	p.require(e.Replicas == 1 || e.Replicas == 3,
		"etcd.replicas: must be 1 or 3; with 2, each of them could stop the other")
	p.require(e.Image == "" || imageReference.MatchString(e.Image),
		"etcd.image: is not a reference of an image; use one such as registry.example.com/etcd:v3.6.8")
	for _, a := range e.Endpoints {
		if !etcdEndpoint.MatchString(a) {
			p.require(false,
				"etcd.endpoints: an address is not https://HOST:PORT; use one such as https://etcd.example.com:2379")
			break
		}
	}
}

// ValidateChange returns why coordinators that use an etcd cannot go from another one to this one.
func (e Etcd) ValidateChange(old Etcd) []string {
	var p problems
	e.validateChange(old, true, &p)
	return p
}

// validateChange refuses what would give the coordinators another etcd: they trust only the one that they have.
func (e Etcd) validateChange(old Etcd, used bool, p *problems) {
	e, old = e.WithDefaults(), old.WithDefaults()
	e.Volume.validateChange(&old.Volume, p)
	if !used {
		return
	}
	p.require(e.Replicas == old.Replicas || e.IsExternal(),
		"etcd.replicas: cannot be changed while coordinators have several members; set it back to %d", old.Replicas)
	p.require(e.IsExternal() == old.IsExternal(),
		"etcd.endpoints: coordinators with several members cannot go to another etcd, because it would not know "+
			"which members they have; restore it")
}
