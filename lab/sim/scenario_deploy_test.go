package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// The deployment:
//
//	ring east use1 usw1      a ring and its data centers
//	rtt use1 euw1 80         round trip in milliseconds; the default is 20
//	set lease=1s keep=3s expired=1s snapshot snapshot=50ms left-out=1 older static no-cache near shards=2 shard-members=3 coordinator-members=2 buffer=1000 own-bytes=100 retain=100 copies=1
//	key x use1 euw1/1        x is a key that use1 owns in its ring, and shard 1 of euw1 owns in its ring
//	key x use1+              x is a key that an additional shard of use1 would own
//	session alice use1       a session with a sidecar of its own
//	session alice use1 1     the same; its puts go to coordinator 1, if there are two or three
//	process alice2 alice     another connection of a session
//	neighbor carol alice     another session of a session's sidecar
func init() {
	verbs["ring"] = (*scenario).ring
	verbs["rtt"] = (*scenario).setRTT
	verbs["set"] = (*scenario).set
	verbs["key"] = (*scenario).placeKey
	verbs["session"] = (*scenario).session
	verbs["process"] = (*scenario).process
	verbs["neighbor"] = (*scenario).neighbor
}

func (s *scenario) ring(args []string) (string, error) {
	r := topology.Ring{Name: args[0]}
	for _, name := range args[1:] {
		r.DCs = append(r.DCs, topology.DC(len(s.dcs)))
		s.dcs = append(s.dcs, topology.DataCenter{Name: name, Ring: topology.RingID(len(s.rings)), Coordinators: 1,
			Caches: 1, Shards: 1})
	}
	s.rings = append(s.rings, r)
	return "", nil
}

func (s *scenario) dc(name string) (topology.DC, error) {
	i := slices.IndexFunc(s.dcs, func(d topology.DataCenter) bool { return d.Name == name })
	if i < 0 {
		return 0, fmt.Errorf("unknown data center %q", name)
	}
	return topology.DC(i), nil
}

func (s *scenario) setRTT(args []string) (string, error) {
	a, err := s.dc(args[0])
	if err != nil {
		return "", err
	}
	b, err := s.dc(args[1])
	if err != nil {
		return "", err
	}
	ms, err := strconv.ParseFloat(args[2], 64)
	s.rtt[[2]topology.DC{a, b}], s.rtt[[2]topology.DC{b, a}] = ms, ms
	return "", err
}

func (s *scenario) set(args []string) (string, error) {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		var err error
		switch name {
		case "lease":
			s.settings.Lease, err = time.ParseDuration(value)
		case "keep":
			var keep time.Duration
			keep, err = time.ParseDuration(value)
			s.settings.KeepMs = keep.Milliseconds()
		case "expired":
			var keep time.Duration
			keep, err = time.ParseDuration(value)
			s.settings.ExpiredMs = keep.Milliseconds()
		case "snapshot":
			s.settings.Level = causal.Snapshot
			if value != "" { // the step of the cuts
				s.settings.SnapshotEvery, err = time.ParseDuration(value)
			}
		case "older":
			s.settings.Older = true
		case "left-out":
			s.settings.LeftOut, err = strconv.Atoi(value)
		case "home":
			s.settings.Level = causal.Local
		case "static":
			s.settings.Binding = causal.Static
		case "near":
			s.settings.NearBytes, s.settings.NearReads = 16<<10, 1
		case "no-cache":
			s.settings.Cache = false
		case "buffer":
			s.settings.MaxBufferBytes, err = strconv.Atoi(value)
		case "own-bytes":
			s.settings.MaxOwnBytes, err = strconv.Atoi(value)
		case "copies":
			s.settings.MaxCopies, err = strconv.Atoi(value)
		case "shards":
			for i := range s.dcs {
				s.dcs[i].Shards, err = strconv.Atoi(value)
			}
		case "shard-members":
			for i := range s.dcs {
				s.dcs[i].ShardMembers, err = strconv.Atoi(value)
			}
		case "coordinators":
			for i := range s.dcs {
				s.dcs[i].Coordinators, err = strconv.Atoi(value)
			}
		case "coordinator-members":
			for i := range s.dcs {
				s.dcs[i].CoordinatorMembers, err = strconv.Atoi(value)
			}
		case "retain":
			s.settings.RetainBytes, err = strconv.Atoi(value)
		default:
			err = fmt.Errorf("unknown setting %q", name)
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

// fixTopology returns the topology. After the first call it does not change any more.
func (s *scenario) fixTopology() (*topology.Topology, error) {
	if s.topo != nil {
		return s.topo, nil
	}
	rtt := make([][]float64, len(s.dcs))
	for a := range rtt {
		rtt[a] = make([]float64, len(s.dcs))
		for b := range rtt[a] {
			if a != b {
				rtt[a][b] = 20
			}
			if ms, ok := s.rtt[[2]topology.DC{topology.DC(a), topology.DC(b)}]; ok {
				rtt[a][b] = ms
			}
		}
	}
	var err error
	s.topo, err = topology.New(1, s.dcs, s.rings, rtt)
	return s.topo, err
}

// start starts the deployment, if it does not run yet, and waits until vectors, probes and streams are established.
func (s *scenario) start() error {
	if s.world != nil {
		return nil
	}
	t, err := s.fixTopology()
	if err != nil {
		return err
	}
	s.world = NewWorld(t, s.settings)
	s.trace.follow(s.world)
	s.workload = &workload{world: s.world, pending: map[uint64]*client{}, issuing: true}
	s.world.Run(time.Second, nil)
	_, err = s.awaitServed(nil)
	return err
}

func (s *scenario) placeKey(args []string) (string, error) {
	t, err := s.fixTopology()
	if err != nil {
		return "", err
	}
	for i := range 10_000 {
		key := fmt.Sprintf("%s%d", args[0], i)
		fits := true
		for _, place := range args[1:] {
			place, more := strings.CutSuffix(place, "+")
			name, shard, given := strings.Cut(place, "/")
			dc, err := s.dc(name)
			if err != nil {
				return "", err
			}
			owner := t.Owner(t.RingOf(dc), topology.SlotOf(key))
			if more {
				owner = grown(t, dc).Owner(t.RingOf(dc), topology.SlotOf(key))
				shard, given = strconv.Itoa(t.DCs[dc].Shards), true
			}
			fits = fits && owner.DC == dc && (!given || strconv.FormatUint(owner.Index, 10) == shard)
		}
		if fits {
			s.keys[args[0]], s.keyNames[key] = key, args[0]
			return "", nil
		}
	}
	return "", fmt.Errorf("found no key that %v own", args[1:])
}

// grown returns the topology with an additional shard in dc.
func grown(t *topology.Topology, dc topology.DC) *topology.Topology {
	dcs := slices.Clone(t.DCs)
	dcs[dc].Shards++
	g, err := topology.New(t.Epoch, dcs, t.Rings, t.RTT)
	if err != nil {
		panic(err) // t is valid
	}
	return g
}

func (s *scenario) key(name string) string {
	if key, ok := s.keys[name]; ok {
		return key
	}
	return name
}

func (s *scenario) session(args []string) (string, error) {
	if err := s.start(); err != nil {
		return "", err
	}
	dc, err := s.dc(args[1])
	if err != nil {
		return "", err
	}
	id := uint64(len(s.sessions) + 1)
	index := id
	if len(args) > 2 {
		through, err := strconv.ParseUint(args[2], 10, 64)
		if err != nil {
			return "", err
		}
		index = 101*id + through // the sum with the session's id is through, modulo 2 and 3
	}
	sidecar := s.world.AddSidecar(dc, index, s.workload.results)
	withMachine(s.world, sidecar, func(m *session.Sidecar, _ causal.Now) { m.Open(id) })
	s.sessions[args[0]] = &client{load: s.workload, session: args[0], name: args[0], id: id, sidecar: sidecar,
		scripted: true}
	s.world.Run(100*time.Millisecond, nil) // it receives the vectors
	return "", nil
}

func (s *scenario) process(args []string) (string, error) {
	of := s.sessions[args[1]]
	if of == nil {
		return "", fmt.Errorf("unknown session %q", args[1])
	}
	s.sessions[args[0]] = &client{load: s.workload, session: of.session, name: args[0], id: of.id, sidecar: of.sidecar,
		scripted: true}
	return "", nil
}

func (s *scenario) neighbor(args []string) (string, error) {
	of := s.sessions[args[1]]
	if of == nil {
		return "", fmt.Errorf("unknown session %q", args[1])
	}
	id := uint64(len(s.sessions) + 1)
	withMachine(s.world, of.sidecar, func(m *session.Sidecar, _ causal.Now) { m.Open(id) })
	s.sessions[args[0]] = &client{load: s.workload, session: args[0], name: args[0], id: id, sidecar: of.sidecar,
		scripted: true}
	return "", nil
}
