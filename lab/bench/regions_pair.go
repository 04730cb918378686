package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/edge"
	"github.com/causalstore/causalstore/lab/envoy"
	"github.com/causalstore/causalstore/lab/ports"
	"github.com/causalstore/causalstore/lab/relay"
	"github.com/causalstore/causalstore/topology"
)

// The data centers of a pair. The measured clients are those of the first one.
var pairDCs = []string{"a", "b"}

// pair is two data centers, each a region and a ring of its own, with a long path between them.
type pair struct {
	o      *RegionsOptions
	delay  time.Duration
	path   *relay.Path
	parts  *processes
	edges  map[string]*envoy.Edge // by data center
	driver *driver
	result *RegionForm
	probes int // that were made, for their keys
}

// userTimeout is the TCP_USER_TIMEOUT of the connections that cross the path in a form: gRPC sets that of parts to the
// time-out of their heartbeat, and edges have their own.
func userTimeout(form string) time.Duration {
	if form == formEdges {
		return edge.PeerTimeout
	}
	return 3 * time.Second
}

// startPair starts a pair in a form, and writes the keys that are read.
func startPair(ctx context.Context, o *RegionsOptions, form, dir string, delay time.Duration) (*pair, error) {
	p := &pair{o: o, delay: delay, path: relay.NewPath(delay, o.Window, userTimeout(form)),
		edges: map[string]*envoy.Edge{}, result: newRegionForm(form)}
	if err := p.start(ctx, dir); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *pair) start(ctx context.Context, dir string) (err error) {
	spec := processSpec{redis: true, tls: p.result.Form != formPlain, topology: topology.File{Epoch: 1,
		RoundTripMs: map[string]map[string]float64{pairDCs[0]: {pairDCs[1]: 2 * p.delay.Seconds() * 1e3}}}}
	for _, dc := range pairDCs {
		spec.topology.DataCenters = append(spec.topology.DataCenters, topology.FileDataCenter{Name: dc})
		spec.topology.Rings = append(spec.topology.Rings,
			topology.FileRing{Name: "ring-" + dc, DataCenters: []string{dc}})
	}
	if p.parts, err = planProcesses(p.o.Binary, dir, spec); err != nil {
		return err
	}
	seen := map[string]map[string]contract.Addresses{}
	if p.result.Form == formEdges {
		if err := p.startEdges(ctx, dir); err != nil {
			return err
		}
	}
	for _, dc := range pairDCs {
		seen[dc] = maps.Clone(p.parts.config.Addresses)
		if seen[dc][otherDC(dc)], err = p.addressesAcross(dc); err != nil {
			return err
		}
	}
	p.parts.addressesFor = func(dc, part string) map[string]contract.Addresses {
		e := p.edges[dc]
		if e == nil {
			return seen[dc]
		}
		all := maps.Clone(seen[dc])
		across := all[otherDC(dc)]
		across.Via = e.Via(contract.Role(part))
		all[otherDC(dc)] = across
		return all
	}
	if err := p.parts.start(ctx); err != nil {
		return err
	}
	if p.driver, err = dialDriver([]string{p.parts.sidecar(pairDCs[0])}, p.o.Connections, 1); err != nil {
		return err
	}
	return p.parts.preload(ctx, p.driver, prefixed("get:", p.o.Keys, p.o.ValueBytes))
}

// stop ends the processes and the path.
func (p *pair) stop() error {
	var errs []error
	if p.driver != nil {
		p.driver.close()
	}
	if p.parts != nil {
		errs = append(errs, p.parts.stop())
	}
	return errors.Join(append(errs, p.path.Close())...)
}

func otherDC(dc string) string {
	if dc == pairDCs[0] {
		return pairDCs[1]
	}
	return pairDCs[0]
}

// directionFrom returns the direction of connections that a data center dials.
func directionFrom(dc string) relay.Direction {
	if dc == pairDCs[0] {
		return relay.Forth
	}
	return relay.Back
}

// addressesAcross returns the addresses of the other data center as one dials them: over the path, or through an egress
// of its edge.
func (p *pair) addressesAcross(dc string) (seen contract.Addresses, err error) {
	other := otherDC(dc)
	if p.edges[dc] != nil {
		at := func(role contract.Role) []string { return []string{contract.PartAddress(role, 0, other, benchStore)} }
		return contract.Addresses{Coordinators: at(contract.RoleCoordinator), Middlemen: at(contract.RoleMiddleman),
			Caches: at(contract.RoleCache)}, nil
	}
	own := p.parts.config.Addresses[other]
	across := func(addrs []string) (far []string) {
		for _, a := range addrs {
			addr, failed := p.path.Listen(directionFrom(dc), a)
			far, err = append(far, addr), errors.Join(err, failed)
		}
		return far
	}
	return contract.Addresses{Coordinators: across(own.Coordinators), Middlemen: across(own.Middlemen),
		Caches: across(own.Caches)}, err
}

// startEdges starts the edges of both data centers, which reach each other over the path.
func (p *pair) startEdges(ctx context.Context, dir string) error {
	for _, dc := range pairDCs {
		addrs, err := ports.Free(4)
		if err != nil {
			return err
		}
		p.edges[dc] = &envoy.Edge{Dir: filepath.Join(dir, "edge-"+dc), Egress: addrs[0], EgressParts: addrs[1],
			Ingress: addrs[2], HTTP: addrs[3]}
	}
	for dc, e := range p.edges {
		if err := p.startEdge(ctx, dc, e); err != nil {
			return fmt.Errorf("start the edge of %s: %w", dc, err)
		}
	}
	return nil
}

func (p *pair) startEdge(ctx context.Context, dc string, e *envoy.Edge) error {
	other, own := otherDC(dc), p.parts.config.Addresses[dc]
	across, err := p.path.Listen(directionFrom(dc), p.edges[other].Ingress)
	if err != nil {
		return err
	}
	trust := func(dc string) (domain, bundle string) {
		a := p.parts.regions.authorities[dc]
		return a.TrustDomain(), string(a.CertificatePEM())
	}
	in, peer := edge.Input{StoreID: benchStore, DataCenter: dc}, edge.Peer{DataCenter: other, Address: across}
	in.TrustDomain, in.Bundle = trust(dc)
	peer.TrustDomain, peer.Bundle = trust(other)
	in.Peers = []edge.Peer{peer}
	for role, addr := range map[contract.Role]string{contract.RoleCoordinator: own.Coordinators[0],
		contract.RoleMiddleman: own.Middlemen[0], contract.RoleCache: own.Caches[0]} {
		in.Parts = append(in.Parts, edge.Part{Name: contract.PartName(role, 0, dc, benchStore), Address: addr})
	}
	certificate, key, err := p.parts.regions.issue(dc, contract.RoleEdge, "0")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(e.Dir, 0o700); err != nil {
		return err
	}
	if err := e.Write(in, certificate, key); err != nil {
		return err
	}
	args, err := e.Arguments()
	if err != nil {
		return err
	}
	program, err := startProgram(nil, e.Dir, "envoy", p.o.Envoy, args...)
	if err != nil {
		return err
	}
	p.parts.members = append(p.parts.members, &member{kind: kindEdge, dc: dc, program: program})
	return program.await(ctx, time.Minute, func() bool { return e.Ready(ctx) == nil })
}
