package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/causalstore/causalstore/lab/load"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// systemSpec identifies a system under test: a scheme on a topology.
type systemSpec struct {
	scheme Scheme
	// dcs is the number of data centers that the topology is cut or doubled to; 0 leaves it unchanged.
	dcs int
	// pod makes all connections to a data center one session; otherwise each is a session.
	pod bool
	// mix asks for a separate system for a mix of reads and writes.
	mix string
	// quiet asks for a separate, unused system.
	quiet bool
}

func (s systemSpec) name() string {
	parts := []any{s.scheme.Name}
	if s.dcs > 0 {
		parts = append(parts, "on", s.dcs, "data centers")
	}
	if s.pod {
		parts = append(parts, "with one session a sidecar")
	}
	if s.mix != "" {
		parts = append(parts, "for", s.mix)
	}
	if s.quiet {
		parts = append(parts, "fresh")
	}
	return strings.TrimSpace(fmt.Sprintln(parts...))
}

// system is a running deployment.
type system struct {
	spec  systemSpec
	plane *deployment
	addrs []string
	sites []string // names of the data centers
	// held are the records that it stores, by prefix.
	held  map[string]bool
	pulse pulse
}

// end stops a system.
func (s *system) end() error {
	s.pulse.end()
	return s.plane.stop()
}

// fleet is the set of running systems.
type fleet struct {
	o       *PaperOptions
	dir     string
	base    *topology.Topology
	systems map[string]*system
}

func newFleet(o *PaperOptions, dir string) (*fleet, error) {
	base, err := paperTopology(o.Topology)
	return &fleet{o: o, dir: dir, base: base, systems: map[string]*system{}}, err
}

// popularity returns the distribution of the accesses to so many keys.
func (f *fleet) popularity(keys int) popularity { return popularity{load.NewZipf(keys, f.o.Theta)} }

// running returns a system, and starts it if necessary.
func (f *fleet) running(ctx context.Context, spec systemSpec) (*system, error) {
	if s := f.systems[spec.name()]; s != nil {
		return s, nil
	}
	s, err := f.start(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec.name(), err)
	}
	f.systems[spec.name()] = s
	return s, nil
}

// system returns a running system with the records stored and its caches warm.
func (f *fleet) system(ctx context.Context, spec systemSpec, r records) (*system, error) {
	s, err := f.running(ctx, spec)
	if err != nil {
		return nil, err
	}
	if s.held[r.prefix] {
		return s, nil
	}
	s.held[r.prefix] = true
	warm := 0
	if spec.scheme.caches() {
		warm = f.o.warmReads(r.count)
	}
	f.o.progress("  %s: writing %d keys of %d bytes, then reading %d times in every data center",
		spec.name(), r.count,
		len(r.value), warm)
	err = r.write(ctx, s.addrs, spec.scheme.unpipelined())
	if err == nil {
		_, err = drain(ctx, func() (float64, error) { return s.plane.incomplete(ctx) })
	}
	if err == nil {
		err = s.awaitSnapshotReads(ctx)
	}
	if err == nil {
		err = r.read(ctx, s.addrs, warm, f.popularity(r.count), f.o.Seed)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec.name(), err)
	}
	if spec.scheme.caches() {
		s.pulse.start(s.addrs, r)
	}
	return s, nil
}

func (f *fleet) start(ctx context.Context, spec systemSpec) (*system, error) {
	dir := filepath.Join(f.dir, folder(spec.name()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	t := f.base
	file, err := f.file(spec, dir)
	if err != nil {
		return nil, err
	}
	scope := "connection"
	if spec.pod {
		scope = "pod"
	}
	args := append([]string{"--session-scope", scope}, spec.scheme.Flags...)
	if file != "" {
		if t, err = topology.Load(file); err != nil {
			return nil, err
		}
		args = append(args, "--topology", file)
	}
	plane, err := startDeployment(ctx, f.o.Binary, dir, args...)
	if err != nil {
		return nil, err
	}
	s := &system{spec: spec, plane: plane, held: map[string]bool{}}
	for i, e := range plane.DataCenters {
		s.addrs, s.sites = append(s.addrs, e.RESP), append(s.sites, t.DCs[i].Name)
	}
	return s, nil
}

// file returns the topology file of a system; "" is the default topology.
func (f *fleet) file(spec systemSpec, dir string) (string, error) {
	t, file := f.base, f.o.Topology
	write := func(g *topology.File) (err error) {
		file = filepath.Join(dir, "topology.json")
		if err = writeTopology(file, g); err == nil {
			t, err = topology.Load(file)
		}
		return err
	}
	var err error
	switch {
	case spec.dcs > len(t.DCs):
		err = write(doubleTopology(t))
	case spec.dcs > 0 && spec.dcs < len(t.DCs):
		err = write(shrinkTopology(t, spec.dcs))
	}
	if err == nil && spec.scheme.Ideal {
		err = write(idealTopology(t))
	}
	if err != nil || file == "" {
		return "", err
	}
	return filepath.Abs(file)
}

// awaitSnapshotReads waits until readers in every data center see what is complete now: a Snapshot read returns a
// slightly older state, and misses newer writes even if they are complete already.
func (s *system) awaitSnapshotReads(ctx context.Context) error {
	cfg := session.DefaultConfig(nil, topology.Node{})
	// The next cut is at most one step away and is used some time after it was reached. Wait for twice that time, since
	// vectors advance in jumps.
	past := time.Now().Add(cfg.SnapshotInterval + 2*cfg.SnapshotLead).UnixMilli()
	return s.plane.await(ctx, replyTimeout, func() bool {
		st, err := s.plane.state(ctx)
		if err != nil {
			return false
		}
		now := time.Now().UnixMilli()
		return !slices.ContainsFunc(st.DataCenters, func(dc local.DCState) bool { return now-dc.MinSVLagMs < past })
	})
}

// keep stops the systems that are not needed any more, so that they do not use CPU time while idle.
func (f *fleet) keep(needed []systemSpec) error {
	names := map[string]bool{}
	for _, s := range needed {
		names[s.name()] = true
	}
	var errs []error
	for name, s := range f.systems {
		if !names[name] {
			errs = append(errs, s.end(), os.RemoveAll(filepath.Join(f.dir, folder(name))))
			delete(f.systems, name)
		}
	}
	return errors.Join(errs...)
}

// awaitIdle waits until the writes of a system are complete, but not longer than while: the next system to be measured
// should not share the machine with them. A scheme without pipelining may have more in flight than it can complete in
// that time.
func (s *system) awaitIdle(ctx context.Context, while time.Duration) error {
	end := time.Now().Add(while)
	for time.Now().Before(end) {
		if n, err := s.plane.incomplete(ctx); err != nil || n == 0 {
			return err
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
