package v1alpha1

import (
	"fmt"
	"regexp"
	"slices"
)

// problems are messages for people, each with the field and the remedy.
type problems []string

func (p *problems) unless(ok bool, format string, args ...any) {
	if !ok {
		*p = append(*p, fmt.Sprintf(format, args...))
	}
}

// Validate says what is wrong with a store. It repeats the rules of the CRD for clusters where they are missing; a test holds
// the two together, message by message.
func (c *CausalStore) Validate() []string {
	var p problems
	p.unless(len(c.Name) <= 20,
		"metadata.name: at most 20 characters, since the names of the pods are made of it; give a shorter name")
	p.unless(!slices.Contains([]byte(c.Name), '.'), "metadata.name: no dots, since it becomes part of host names; use hyphens")
	s := &c.Spec
	s.rings(&p)
	s.edges(&p)
	for _, d := range s.DataCenters {
		d.validate(&p)
	}
	s.Storage.validate(&p)
	p.unless(s.Consistency.Default == LevelCausal, "spec.consistency.default: %s is not there yet; give Causal",
		s.Consistency.Default)
	p.unless(len(s.Consistency.Rules) == 0, "spec.consistency.rules: levels per key are not there yet; leave the rules out")
	return p
}

// rings: every data centre in exactly one ring.
func (s *CausalStoreSpec) rings(p *problems) {
	in := map[string]int{}
	for _, r := range s.Rings {
		unknown := false
		for _, name := range r.DataCenters {
			in[name]++
			unknown = unknown || !slices.ContainsFunc(s.DataCenters, func(d DataCenter) bool { return d.Name == name })
		}
		p.unless(!unknown,
			"spec.rings: a ring names a data centre that spec.dataCenters does not list; correct the name, or declare the data centre (%s)", r.Name)
	}
	for _, d := range s.DataCenters {
		p.unless(in[d.Name] > 0, "spec.rings: a data centre is in no ring; add it to the dataCenters of exactly one ring (%s)",
			d.Name)
		p.unless(in[d.Name] < 2, "spec.rings: a data centre is in more than one ring; leave it in exactly one (%s)", d.Name)
	}
}

// edges: whoever is in another region than somebody else can be reached from there.
func (s *CausalStoreSpec) edges(p *problems) {
	if len(s.DataCenters) == 0 {
		return // the schema wants one
	}
	first, regions := s.DataCenters[0], 1
	for _, d := range s.DataCenters {
		if d.Region != first.Region {
			regions++
			p.unless(d.Edge != nil,
				"spec.dataCenters: a data centre in another region has no edge.address; give the host:port at which other regions reach it (%s)", d.Name)
		}
	}
	p.unless(regions == 1 || first.Edge != nil,
		"spec.dataCenters: the first data centre has no edge.address, and others are in other regions; give the host:port at which other regions reach it (%s)", first.Name)
}

var (
	hostPort    = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?:[0-9]{1,5}$`)
	addressPort = regexp.MustCompile(`^[0-9.]+:[0-9]+$`)
)

func (d *DataCenter) validate(p *problems) {
	for _, z := range d.Zones.Frontend {
		p.unless(!slices.Contains(d.Zones.Backend, z),
			"zones: %s is in both frontend and backend, which must not fail together; leave it in one", z)
	}
	if d.Edge != nil {
		a := d.Edge.Address
		p.unless(hostPort.MatchString(a) && !addressPort.MatchString(a),
			"edge.address: it is not a DNS name with a port; give one such as edge.us-east-1.example.com:15443")
	}
	p.unless(d.Coordinators.Replicas <= 16, "coordinators.replicas: a data centre has at most 16 coordinators; give fewer")
	p.unless(d.Caches.Memory.atLeast("64Mi"), "caches.memory: at least 64Mi is needed; give more")
	p.unless(d.Coordinators.Volume.Size.atLeast("256Mi"), "volume.size: at least 256Mi is needed; give more")
}

func (s Size) atLeast(other Size) bool {
	q := s.Quantity()
	return q.Cmp(other.Quantity()) >= 0
}

func (s *Storage) validate(p *problems) {
	p.unless(s.Engine == EngineRedis || s.Engine == EngineEmbedded,
		"spec.storage.engine: %s is not there yet; give Redis or Embedded", s.Engine)
	p.unless(s.Replicas == 1, "spec.storage.replicas: more than 1 needs chain replication, which is not there yet; give 1")
	p.unless(s.Engine != EngineRedis || s.Image != "",
		"spec.storage.image: Redis needs an image; give one that has redis-server 6.2 or newer, such as redis:7.4")
	p.unless(s.Engine != EngineEmbedded || s.Image == "",
		"spec.storage.image: the embedded engine has no image of its own; leave it out")
	p.unless(s.Volume.Size.atLeast("256Mi"), "volume.size: at least 256Mi is needed; give more")
}
