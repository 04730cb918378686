package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// idleFleet is three data centers in two rings, with each part in its own process, and any number of sidecars.
type idleFleet struct {
	binary, dir string
	reads       contract.Reads
	configFile  string
	members     []*member
	http        http.Client
}

// member is a process of a fleet.
type member struct {
	kind, dc, http, redis string
	program               *program
}

var fleetDCs = []string{"a", "b", "c"}

// The kinds of sidecars in a fleet; the kinds of other members are the names of their parts.
const (
	sidecarWithoutClient = "sidecar without a client"
	sidecarWithClient    = "sidecar with an idle client"
)

// start starts the parts, and in the first data center two sidecars, and returns when all are ready.
func (f *idleFleet) start(ctx context.Context) error {
	config := contract.Config{
		Topology: &topology.File{Epoch: 1,
			Rings:       []topology.FileRing{{Name: "one", DataCenters: fleetDCs[:2]}, {Name: "two", DataCenters: fleetDCs[2:]}},
			RoundTripMs: map[string]map[string]float64{"a": {"b": 8, "c": 20}, "b": {"c": 16}}},
		Addresses: map[string]contract.Addresses{}, TokenKeyFile: filepath.Join(f.dir, "token.key"),
		Session: contract.Session{Reads: f.reads}, Storage: contract.Storage{Engine: contract.EngineEmbedded},
	}
	for _, dc := range fleetDCs {
		config.Topology.DataCenters = append(config.Topology.DataCenters, topology.FileDataCenter{Name: dc})
		addrs, err := freePorts(3)
		if err != nil {
			return err
		}
		config.Addresses[dc] = contract.Addresses{Coordinators: addrs[0:1], Middlemen: addrs[1:2], Caches: addrs[2:3]}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	f.configFile = filepath.Join(f.dir, "causalstore.yaml")
	if err := errors.Join(os.WriteFile(config.TokenKeyFile, []byte(strings.Repeat("k", 32)), 0o600), os.WriteFile(f.configFile, text, 0o600)); err != nil {
		return err
	}
	for _, dc := range fleetDCs {
		for _, part := range partNames[:3] {
			if err := f.add(part, part, dc); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(f.add("sidecar", sidecarWithoutClient, fleetDCs[0]), f.add("sidecar", sidecarWithClient, fleetDCs[0])); err != nil {
		return err
	}
	return f.awaitReady(ctx)
}

// addSidecars starts sidecars without clients in the first data center, and returns when they are ready.
func (f *idleFleet) addSidecars(ctx context.Context, n int) error {
	for range n {
		if err := f.add("sidecar", sidecarWithoutClient, fleetDCs[0]); err != nil {
			return err
		}
	}
	return f.awaitReady(ctx)
}

// add starts a member.
func (f *idleFleet) add(part, kind, dc string) error {
	addrs, err := freePorts(2)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s-%d", dc, part, len(f.members))
	dir := filepath.Join(f.dir, name)
	args := []string{part, "--config", f.configFile, "--data-center", dc, "--listen-http", addrs[0]}
	p := &member{kind: kind, dc: dc, http: addrs[0]}
	switch part {
	case "sidecar":
		p.redis = addrs[1]
		args = append(args, "--listen-redis", addrs[1], "--pprof")
	case "coordinator":
		args = append(args, "--data-dir", filepath.Join(dir, "log"), "--pprof")
	case "middleman":
		args = append(args, "--storage-dir", filepath.Join(dir, "storage"), "--pprof")
	}
	if p.program, err = startProgram(dir, name, f.binary, args...); err != nil {
		return err
	}
	f.members = append(f.members, p)
	return nil
}

func (f *idleFleet) awaitReady(ctx context.Context) error {
	for _, p := range f.members {
		err := p.program.await(ctx, 2*time.Minute, func() bool {
			_, err := fetch(ctx, &f.http, "http://"+p.http+"/readyz")
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *idleFleet) metric(ctx context.Context, p *member, name string) (float64, error) {
	b, err := fetch(ctx, &f.http, "http://"+p.http+"/metrics")
	if err != nil {
		return 0, fmt.Errorf("get the metrics of the %s of %s: %w", p.kind, p.dc, err)
	}
	return sumMetric(b, p.kind, name)
}

// stop ends all members at once, sidecars first.
func (f *idleFleet) stop() error {
	var errs []error
	for i := len(f.members) - 1; i >= 0; i-- {
		errs = append(errs, f.members[i].program.stop())
	}
	return errors.Join(errs...)
}

// freePorts returns n addresses that can be listened on.
func freePorts(n int) (addrs []string, err error) {
	for range n {
		addr, err := freePort()
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}
