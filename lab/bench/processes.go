package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/ports"
	"github.com/causalstore/causalstore/lab/redisserver"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// partNames are the parts of a data center, in the order in which they start.
var partNames = []string{"coordinator", "middleman", "cache", "sidecar"}

// processes is a running system: data centers with each part in its own process, as in production, a whole deployment
// in one process, or a stock Redis.
type processes struct {
	processSpec
	binary, dir string
	config      contract.Config // what all parts share
	regions     *regions        // nil without TLS
	members     []*member
	register    *program // etcd; nil: no group has several members
	http        http.Client
}

// processSpec is what a deployment consists of.
type processSpec struct {
	topology topology.File
	level    causal.Level
	scope    contract.Scope // of the sessions; "": the default
	// redis keeps the data of each shard in a stock Redis server of its own, instead of the embedded storage.
	redis bool
	// tls secures the links between parts. Each data center is then a region of its own.
	tls bool
	// groupMembers is how many members hold the log of each coordinator; 0: 1. With more, the program etcd keeps the
	// configurations of the groups, so tls is needed.
	groupMembers int
	etcd         string
	// nearBytes bounds the near copies of each sidecar, in bytes; 0: there are none.
	nearBytes int
	// cacheBytes bounds each cache; 0: the default.
	cacheBytes int
	// memoryLimit is GOMEMLIMIT by part; 0: none.
	memoryLimit map[string]int64
	// addressesFor, if not nil, returns the addresses of all parts as a part of a data center dials them.
	addressesFor func(dc, part string) map[string]contract.Addresses
}

// member is a process of a system. One without a page, such as Redis, has no address for HTTP.
type member struct {
	part, kind, dc, http, redis string
	program                     *program
	storage                     *redisserver.Server // of a middleman
	children                    []int               // pids of the storage of a whole deployment
}

// The kinds of processes other than parts.
const (
	kindStorage = "redis"
	kindLocal   = "data plane"
	kindEdge    = "edge"
)

// runs reports whether a member runs a part.
func (m *member) runs(part string) bool { return m.part == part || m.kind == kindLocal }

// storagePids are the processes of the storage of a member.
func (m *member) storagePids() []int {
	if m.storage != nil {
		return []int{m.storage.Pid()}
	}
	return m.children
}

func (p *processes) pids() (pids []int) {
	for _, m := range p.members {
		pids = append(append(pids, m.program.pid()), m.storagePids()...)
	}
	return pids
}

// hereDC is the name of the only data center of a system.
const hereDC = "here"

// oneDataCenter is the topology of a single data center.
func oneDataCenter() topology.File {
	return topology.File{Epoch: 1, DataCenters: []topology.FileDataCenter{{Name: hereDC}},
		Rings: []topology.FileRing{{Name: "ring", DataCenters: []string{hereDC}}}}
}

// planProcesses chooses the addresses of a deployment and makes its certificates. It starts nothing.
func planProcesses(binary, dir string, spec processSpec) (*processes, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	p := &processes{processSpec: spec, binary: binary, dir: dir, http: http.Client{Timeout: 10 * time.Second}}
	p.config = contract.Config{Topology: &p.topology, Addresses: map[string]contract.Addresses{},
		Session:    contract.Session{Scope: spec.scope, Reads: spec.level.Or(causal.Latest).String()},
		NearCopies: contract.NearCopies{MaxBytes: new(contract.Bytes(spec.nearBytes))},
		Limits:     contract.Limits{CacheBytes: contract.Bytes(spec.cacheBytes)},
		Storage:    contract.Storage{Engine: contract.EngineEmbedded}, TokenKeyFile: filepath.Join(dir, "token.key")}
	if spec.scope == contract.ScopeDataCenter {
		p.config.Session.Reads = "" // there is one level only
	}
	if err := os.WriteFile(p.config.TokenKeyFile, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		return nil, err
	}
	for i := range p.topology.DataCenters {
		dc := &p.topology.DataCenters[i]
		if spec.groupMembers > 1 {
			dc.CoordinatorMembers = &p.groupMembers
		}
		counts := dc.Counts()
		coordinators := counts.Coordinators * counts.Members(topology.Coordinator)
		addrs, err := ports.Free(coordinators + counts.Shards + counts.Caches)
		if err != nil {
			return nil, err
		}
		middlemen, caches := addrs[coordinators:], addrs[coordinators+counts.Shards:]
		p.config.Addresses[dc.Name] = contract.Addresses{Coordinators: addrs[:coordinators],
			Middlemen: middlemen[:counts.Shards], Caches: caches}
	}
	if !spec.tls {
		return p, nil
	}
	var err error
	p.regions, err = newRegions(spec.topology, filepath.Join(dir, "trust.yaml"))
	return p, err
}

// start starts all parts, with one sidecar in each data center, and returns when they are ready.
func (p *processes) start(ctx context.Context) error {
	if p.groupMembers > 1 {
		if err := p.startRegister(ctx); err != nil {
			return err
		}
	}
	for _, dc := range p.topology.DataCenters {
		counts := dc.Counts()
		for i, n := range []int{counts.Coordinators, counts.Shards, counts.Caches, 1} {
			for index := range n {
				if err := p.add(ctx, partNames[i], partNames[i], dc.Name, index); err != nil {
					return err
				}
			}
		}
	}
	return p.awaitReady(ctx)
}

// startProcesses plans and starts data centers.
func startProcesses(ctx context.Context, binary, dir string, spec processSpec) (*processes, error) {
	p, err := planProcesses(binary, dir, spec)
	if err != nil {
		return nil, err
	}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// add starts a part: all members of a coordinator, or the one process of another part.
func (p *processes) add(ctx context.Context, part, kind, dc string, index int) error {
	n := 1
	if part == "coordinator" {
		n = max(p.groupMembers, 1)
	}
	for i := range n {
		if err := p.addMember(ctx, part, kind, dc, index, i+1); err != nil {
			return err
		}
	}
	return nil
}

func (p *processes) addMember(ctx context.Context, part, kind, dc string, index, number int) error {
	addrs, err := ports.Free(2)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s-%d", dc, part, len(p.members))
	dir := filepath.Join(p.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	m := &member{part: part, kind: kind, dc: dc, http: addrs[0]}
	config := p.config
	config.Addresses = maps.Clone(p.config.Addresses)
	if p.addressesFor != nil {
		config.Addresses = p.addressesFor(dc, part)
	}
	args := []string{part, "--config", filepath.Join(dir, "causalstore.yaml"), "--data-center", dc, "--listen-http",
		addrs[0], "--pprof"}
	switch part {
	case "sidecar":
		m.redis = addrs[1]
		args = append(args, "--listen-redis", addrs[1])
	case "coordinator":
		args = append(args, "--index", strconv.Itoa(index), "--member", strconv.Itoa(number), "--data-dir",
			filepath.Join(dir, "log"))
	case "middleman":
		args = append(args, "--index", strconv.Itoa(index))
		if err := p.addStorage(ctx, m, filepath.Join(dir, "storage"), &config); err != nil {
			return err
		}
	default:
		args = append(args, "--index", strconv.Itoa(index))
	}
	p.members = append(p.members, m) // also to stop its storage
	if config.TLS, err = p.regions.credentials(dir, dc, part, index); err != nil {
		return err
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "causalstore.yaml"), text, 0o600); err != nil {
		return err
	}
	var env []string
	if n := p.memoryLimit[part]; n > 0 {
		env = append(env, fmt.Sprintf("GOMEMLIMIT=%d", n))
	}
	m.program, err = startProgram(env, dir, name, p.binary, args...)
	return err
}

// addStorage prepares the storage of a shard in a folder.
func (p *processes) addStorage(ctx context.Context, m *member, dir string, config *contract.Config) (err error) {
	if !p.redis {
		config.Storage.Embedded.Dir = dir
		return nil
	}
	if m.storage, err = redisserver.Start(ctx, redisserver.Options{Dir: dir}); err != nil {
		return err
	}
	config.Storage = contract.Storage{Engine: contract.EngineRedis,
		Redis: contract.RedisStorage{Socket: m.storage.Socket}}
	return nil
}

func (p *processes) awaitReady(ctx context.Context) error {
	for _, m := range p.members {
		if m.http == "" {
			continue
		}
		err := m.program.await(ctx, 2*time.Minute, func() bool {
			_, err := p.fetch(ctx, m, "/readyz")
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// stop ends all members. Their data is not needed any more.
func (p *processes) stop() error {
	var errs []error
	for _, m := range p.members {
		switch {
		case m.program == nil:
		case m.kind == kindLocal: // it stops its storage
			errs = append(errs, m.program.stop())
		default:
			errs = append(errs, m.program.kill())
		}
		if m.storage != nil {
			errs = append(errs, m.storage.Kill())
		}
	}
	if p.register != nil {
		errs = append(errs, p.register.kill())
	}
	return errors.Join(errs...)
}

// sidecar returns the address for clients of the first sidecar of a data center.
func (p *processes) sidecar(dc string) string {
	for _, m := range p.members {
		if m.dc == dc && m.redis != "" {
			return m.redis
		}
	}
	return ""
}
