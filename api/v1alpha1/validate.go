package v1alpha1

import (
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// problems are messages for users, each with the field and the remedy.
type problems []string

// require adds a problem unless ok.
func (p *problems) require(ok bool, format string, args ...any) {
	if !ok {
		*p = append(*p, fmt.Sprintf(format, args...))
	}
}

// Validate returns what is wrong with a store. It repeats the rules of the CRD for clusters where they are missing; a
// test keeps the messages of both equal.
func (c *CausalStore) Validate() []string {
	var p problems
	p.require(len(c.Name) <= 20,
		"metadata.name: must have at most 20 characters, because the names of pods contain it; use a shorter name")
	p.require(!slices.Contains([]byte(c.Name), '.'),
		"metadata.name: must not contain dots, because host names contain it; use hyphens")
	s := &c.Spec
	p.require(s.Image == "" || imageReference.MatchString(s.Image),
		"spec.image: is not a reference of an image; use one such as registry.example.com/causalstore:v1")
	p.require(s.ID == "" || storeID.MatchString(s.ID),
		"spec.id: must be a UUID in lower case; use the output of uuidgen, such as "+
			"4f9c2c1e-6a0b-4d55-9a54-0c3f7d1b8e21")
	p.require(s.ID != "" || !slices.ContainsFunc(s.DataCenters, func(d DataCenter) bool {
		return d.Region != s.DataCenters[0].Region
	}),
		"spec.id: a store with data centers in several regions needs an id that is the same in all clusters; set it "+
			"to a new UUID, such as the output of uuidgen")
	s.validateRings(&p)
	p.require(len(s.Rings) > 1 || !slices.ContainsFunc(s.DataCenters, func(d DataCenter) bool {
		return d.Exclusions > 0
	}),
		"spec.dataCenters: exclusions needs several rings, because nobody else has the data of the only one; remove it")
	p.require(len(s.keepingRings()) <= 1,
		"spec.dataCenters: keepsData is set in several rings, whose data would differ for good; set it in one ring, "+
			"from which the others copy")
	p.require(s.TieBreaker == "" || s.findDataCenter(s.TieBreaker) != nil,
		"spec.tieBreaker: names a data center that spec.dataCenters does not list; correct the name, or remove it")
	s.validateEdges(&p)
	for _, d := range s.DataCenters {
		d.validate(&p)
		p.require(s.SingleZone() || len(d.Zones.Frontend) > 0 || len(d.Zones.Backend) > 0,
			"spec.dataCenters: a data center has no zones; set zones.frontend and zones.backend, or spec.placement: "+
				"SingleZone for a cluster with one zone (%s)", d.Name)
	}
	s.Pods.validate(&p)
	s.ServiceAccount.Annotations.validate(&p)
	s.Storage.validate(&p)
	s.NearCopies.validate(&p)
	s.Clients.validate(c.Name, s.Injection.Mode, &p)
	p.require(s.Consistency.Default == LevelCausal, "spec.consistency.default: %s is not supported yet; use Causal",
		s.Consistency.Default)
	p.require(len(s.Consistency.Rules) == 0,
		"spec.consistency.rules: levels per key are not supported yet; remove the rules")
	return p
}

// validateRings requires that every data center is in exactly one ring.
func (s *CausalStoreSpec) validateRings(p *problems) {
	in := map[string]int{}
	for _, r := range s.Rings {
		unknown := false
		for _, name := range r.DataCenters {
			in[name]++
			unknown = unknown || !slices.ContainsFunc(s.DataCenters, func(d DataCenter) bool { return d.Name == name })
		}
		p.require(!unknown,
			"spec.rings: a ring names a data center that spec.dataCenters does not list; correct the name or add the "+
				"data center (%s)", r.Name)
	}
	for _, d := range s.DataCenters {
		p.require(in[d.Name] > 0,
			"spec.rings: a data center is in no ring; add it to the dataCenters of exactly one ring (%s)",
			d.Name)
		p.require(in[d.Name] < 2, "spec.rings: a data center is in more than one ring; keep it in exactly one (%s)",
			d.Name)
	}
}

// validateEdges requires that every data center of a store with several regions has an edge, and that the names of
// their Services differ.
func (s *CausalStoreSpec) validateEdges(p *problems) {
	several := slices.ContainsFunc(s.DataCenters, func(d DataCenter) bool {
		return d.Region != s.DataCenters[0].Region
	})
	for _, d := range s.DataCenters {
		p.require(!several || d.Edge != nil,
			"spec.dataCenters: a data center has no edge.address, although the store has several regions; set it to "+
				"the host:port at which other regions reach it (%s)", d.Name)
		p.require(d.Edge == nil || !slices.ContainsFunc(s.DataCenters, func(o DataCenter) bool {
			return o.Name != d.Name && o.Edge != nil && o.Edge.Address == d.Edge.Address
		}),
			"spec.dataCenters: two data centers have the same edge.address, and each has an edge of its own; correct "+
				"one (%s)", d.Name)
		for _, suffix := range []string{"-edge", "-etcd", "-ingress", "-parts"} {
			p.require(!slices.ContainsFunc(s.DataCenters, func(o DataCenter) bool { return o.Name == d.Name+suffix }),
				"spec.dataCenters: a data center is called like another one with -edge, -etcd, -ingress or -parts "+
					"appended, and Services of that one have these names; use another name (%s)",
				d.Name+suffix)
		}
	}
}

var (
	storeID        = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	imageReference = regexp.MustCompile(
		`^(([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)+(:[0-9]+)?|[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?:[0-9]+|localhost)/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?(@[a-zA-Z][a-zA-Z0-9]*([+._-][a-zA-Z][a-zA-Z0-9]*)*:[0-9a-fA-F]{32,})?$`)
	// oldRedis matches the stock images of versions before 6.2. What is in other images only the running server knows.
	oldRedis = regexp.MustCompile(`(^|/)redis:v?([0-5]|6[.][01])([.@-].*)?$`)
	hostPort = regexp.MustCompile(
		`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?|[[][0-9a-f:.]+[]]):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$`)
)

// keepingRings returns the rings with a data center whose data count though it was excluded.
func (s *CausalStoreSpec) keepingRings() (rings []string) {
	for _, r := range s.Rings {
		if slices.ContainsFunc(s.DataCenters, func(d DataCenter) bool {
			return d.KeepsData > 0 && slices.Contains(r.DataCenters, d.Name)
		}) {
			rings = append(rings, r.Name)
		}
	}
	return rings
}

func (d *DataCenter) validate(p *problems) {
	p.require(d.KeepsData <= d.Exclusions,
		"spec.dataCenters: keepsData is above exclusions; set it to exclusions, or remove it")
	p.require(d.ForceExclusion <= d.Exclusions,
		"spec.dataCenters: forceExclusion is above exclusions; set it to exclusions, or remove it")
	for _, z := range d.Zones.Frontend {
		p.require(!slices.Contains(d.Zones.Backend, z),
			"zones: %s is in both frontend and backend, which must not fail together; keep it in one, or set "+
				"spec.placement: SingleZone", z)
	}
	if d.Edge != nil {
		d.Edge.validate(p)
	}
	p.require((d.Latitude == nil) == (d.Longitude == nil),
		"spec.dataCenters: a data center has only one of latitude and longitude; set both, or neither")
	d.Pods.validate(p)
	d.Etcd.validate(p)
	p.require(d.Coordinators.Replicas <= 16,
		"coordinators.replicas: a data center can have at most 16 coordinators; use fewer")
	p.require(d.Caches.Memory.atLeast("64Mi"), "caches.memory: must be at least 64Mi; use more")
	p.require(d.Coordinators.Volume.Size.atLeast("256Mi"), "volume.size: must be at least 256Mi; use more")
}

func (e *Edge) validate(p *problems) {
	p.require(hostPort.MatchString(e.Address),
		"edge.address: must be a DNS name or an IP address with a port; use one such as "+
			"edge.us-east-1.example.com:15443")
	s := &e.Service
	p.require(s.NodePort == 0 || s.Type != corev1.ServiceTypeClusterIP,
		"edge.service.nodePort: needs type NodePort or LoadBalancer; set the type, or remove it")
	p.require(s.LoadBalancerClass == "" || s.Type == corev1.ServiceTypeLoadBalancer,
		"edge.service.loadBalancerClass: needs type LoadBalancer; set the type, or remove it")
	s.Annotations.validate(p)
}

func (s Size) atLeast(other Size) bool {
	q := s.Quantity()
	return q.Cmp(other.Quantity()) >= 0
}

func (n *NearCopies) validate(p *problems) {
	if n == nil {
		return
	}
	q := n.MaxBytes.Quantity()
	p.require(q.IsZero() || n.MaxBytes.atLeast("64Ki"),
		"nearCopies.maxBytes: must be at least 64Ki; use more, or 0 for no near copies")
	p.require(Size("64Mi").atLeast(n.MaxBytes),
		"nearCopies.maxBytes: must be at most 64Mi, a quarter of the memory of a sidecar; use less")
}

func (s *Storage) validate(p *problems) {
	p.require(s.Engine == EngineRedis || s.Engine == EngineEmbedded,
		"spec.storage.engine: %s is not supported yet; use Redis or Embedded", s.Engine)
	p.require(s.Replicas >= 1 && s.Replicas <= 3,
		"storage.replicas: a shard has 1 to 3 members; use one of these numbers")
	p.require(s.Engine != EngineRedis || s.Image != "",
		"spec.storage.image: engine Redis needs an image; use one with redis-server 6.2 or newer, such as redis:7.4")
	p.require(s.Engine != EngineEmbedded || s.Image == "",
		"spec.storage.image: engine Embedded runs inside the middleman and has no image; remove the field")
	p.require(s.Image == "" || imageReference.MatchString(s.Image),
		"spec.storage.image: is not a reference of an image; use one such as redis:7.4")
	p.require(!oldRedis.MatchString(s.Image),
		"spec.storage.image: redis-server before 6.2 lacks what the store needs; use redis:6.2 or newer, "+
			"such as redis:7.4")
	for _, v := range []Volume{s.Volume, s.LogVolume()} {
		p.require(v.Size.atLeast("256Mi"), "volume.size: must be at least 256Mi; use more")
	}
}
