package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/transport/wan"
	"github.com/causalstore/causalstore/topology"
)

// Endpoints is the content of the file that `causalstore local --endpoints-file` writes when it is ready for clients.
type Endpoints struct {
	Admin       string     `json:"admin"`
	DataCenters []Endpoint `json:"dataCenters"`
}

// Endpoint has the addresses of one data center for Redis clients.
type Endpoint struct {
	Name string `json:"name"`
	Ring string `json:"ring"`
	RESP string `json:"resp"` // of the first sidecar
	// Sidecars are the addresses of all sidecars, the first one included.
	Sidecars []string `json:"sidecars"`
}

// Endpoints returns the addresses for clients.
func (d *Deployment) Endpoints() []Endpoint {
	var all []Endpoint
	for i, dc := range d.topo.DCs {
		e := Endpoint{Name: dc.Name, Ring: d.topo.Rings[dc.Ring].Name}
		for _, f := range d.frontsOf(topology.DC(i)) {
			e.Sidecars = append(e.Sidecars, f.addr)
		}
		e.RESP = e.Sidecars[0]
		all = append(all, e)
	}
	return all
}

// Fault is the body of POST /fault.
type Fault struct {
	// Kind is cut, reconnect, congest, crash, restart, wipe, accept-loss, exclude, pause, resume or heal.
	Kind string `json:"kind"`
	// From and To are the data centers of a cut, or of one that reconnect ends; each may be "*" for all others.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// OneWay cuts only what goes from From to To.
	OneWay bool `json:"oneWay,omitempty"`
	// DC is the data center of the other kinds.
	DC string `json:"dc,omitempty"`
	// AddMs is the congestion: a delay added to all traffic of DC in each direction; 0 ends it.
	AddMs int `json:"addMs,omitempty"`
	// Part is coordinator, middleman, cache or all.
	Part string `json:"part,omitempty"`
	// Index is that of the part in its data center; without it, all are meant.
	Index *uint64 `json:"index,omitempty"`
	// Member is that of a coordinator or middleman, from 1; without it, all are meant.
	Member uint8 `json:"member,omitempty"`
}

// Inject injects the fault f, or ends it.
func (d *Deployment) Inject(ctx context.Context, f Fault) error {
	err := d.inject(ctx, f)
	if err == nil {
		d.markOnPage(f.markKind(), f.String(), 0)
	}
	return err
}

func (d *Deployment) inject(ctx context.Context, f Fault) error {
	switch f.Kind {
	case "cut", "reconnect", "congest":
		return d.hurtNetwork(f)
	case "crash":
		return d.crash(f)
	case "restart":
		return d.restart(ctx, f)
	case "wipe":
		return d.wipe(ctx, f)
	case "accept-loss":
		return d.acceptLoss(ctx, f)
	case "exclude":
		return d.exclude(f)
	case "pause":
		return d.pause(f)
	case "resume":
		return d.resumeParts(f)
	case "heal":
		return d.heal(ctx)
	}
	return fmt.Errorf(
		"unknown fault kind %q; use cut, reconnect, congest, crash, restart, wipe, accept-loss, exclude, pause, "+
			"resume or heal", f.Kind)
}

func (d *Deployment) hurtNetwork(f Fault) error {
	if d.wan == nil {
		return errors.New("cuts and congestion need the emulated WAN; start with --wan=true")
	}
	if f.Kind == "congest" {
		dc, ok := d.topo.ByName(f.DC)
		if !ok {
			return fmt.Errorf("unknown data center %q", f.DC)
		}
		return d.wan.Congest(dc, time.Duration(f.AddMs)*time.Millisecond)
	}
	from, err := d.dcOrAll(f.From)
	if err != nil {
		return err
	}
	to, err := d.dcOrAll(f.To)
	if err != nil {
		return err
	}
	if f.Kind == "reconnect" {
		if f.OneWay {
			return errors.New("reconnect ends cuts in both directions: leave out oneWay")
		}
		return d.wan.Reconnect(from, to)
	}
	if f.OneWay {
		return d.wan.Cut(from, to)
	}
	return d.wan.CutBoth(from, to)
}

func (d *Deployment) dcOrAll(name string) (topology.DC, error) {
	if name == "*" {
		return wan.AllDCs, nil
	}
	dc, ok := d.topo.ByName(name)
	if !ok {
		return 0, fmt.Errorf("unknown data center %q; give one, or * for all others", name)
	}
	return dc, nil
}

// State is the reply to GET /state.
type State struct {
	Origins     []OriginState `json:"origins"`
	DataCenters []DCState     `json:"dataCenters"`
	WAN         WANState      `json:"wan"`
	RingPairs   []RingPair    `json:"ringPairs"`
	InFlight    []RingTimes   `json:"inFlight"`
}

// OriginState is what the coordinator of an origin knows about its own writes, as HLCs.
type OriginState struct {
	Origin     topology.Origin       `json:"origin"`
	DC         string                `json:"dataCenter"`
	Up         bool                  `json:"up"`
	SV         causal.HLC            `json:"sv"`
	SVLagMs    int64                 `json:"svLagMs"`
	RV         map[string]causal.HLC `json:"rv"`
	Incomplete int                   `json:"incompleteWrites"`
	// Without are the data centers without all or some of whose shards it completes writes, because they were excluded.
	Without []string   `json:"withoutShardsOf,omitempty"`
	Bytes   int        `json:"incompleteBytes"`
	Group   GroupState `json:"group"`
}

// GroupState is the group that holds the log of a coordinator, or a shard, as the member says that serves, or one that
// is up.
type GroupState struct {
	Epoch   uint64        `json:"epoch"`
	Primary string        `json:"primary"` // the member
	Members []MemberState `json:"members"`
}

// MemberState is one member of a group.
type MemberState struct {
	Member uint8  `json:"member"`
	Up     bool   `json:"up"`
	Role   string `json:"role,omitempty"`
	// InGroup: every acknowledged write is on its disk.
	InGroup bool `json:"inGroup"`
	// Behind is how many records of the log of the member that serves it lacks; left out if this one is down or none
	// serves, since it is not known then.
	Behind *uint64 `json:"behind,omitempty"`
	// Problem says what keeps the group from changing, or this member out of it.
	Problem string `json:"problem,omitempty"`
}

// DCState is the parts and sessions of one data center. What it says of sidecars is about all of them.
type DCState struct {
	Name       string           `json:"name"`
	Ring       string           `json:"ring"`
	Middlemen  []MiddlemanState `json:"middlemen"`
	Caches     []CacheState     `json:"caches"`
	Sidecar    session.Stats    `json:"sidecar"`
	Sessions   int              `json:"sessions"`
	BoundBy    []SessionState   `json:"boundSessions"`
	Connected  int              `json:"connections"`
	MinSVLagMs int64            `json:"minSvLagMs"`
}

// BackfillState is how far a shard has come in getting lost data back.
type BackfillState struct {
	Stage    string `json:"stage"` // "asking", "copying", "catching up" or "done"
	Keys     uint64 `json:"keys"`  // looked up, of about Expected
	Expected uint64 `json:"expectedKeys"`
	Bytes    uint64 `json:"bytes"`          // copied
	From     string `json:"from,omitempty"` // the ring that gives the data now, if one can
	// Waiting are the coordinators whose answer is missing, or whose writes are not all there again.
	Waiting []string `json:"waitingFor,omitempty"`
}

// MiddlemanState is one shard. It is up if a member serves it.
type MiddlemanState struct {
	Shard    uint64      `json:"shard"`
	Up       bool        `json:"up"`
	Group    *GroupState `json:"group,omitempty"` // of several members
	DataLost bool        `json:"dataLost"`
	// Backfill is how far the shard has come in getting lost data back, or the last time that this has ended since it
	// started; nil if it has lost none since, or if there is no other ring.
	Backfill      *BackfillState  `json:"backfill,omitempty"`
	Puts          int             `json:"putsInWork"`
	Processed     int             `json:"processedAboveRV"`
	CachedAtBytes int             `json:"cachedAtBytes"`
	HistoryBytes  int             `json:"historyBytes"`
	Stats         middleman.Stats `json:"stats"`
}

// CacheState is one cache.
type CacheState struct {
	Index   uint64      `json:"index"`
	Up      bool        `json:"up"`
	Entries int         `json:"entries"`
	Bytes   int         `json:"bytes"`
	Stats   cache.Stats `json:"stats"`
}

// SessionState is a session that is bound, or has incomplete writes.
type SessionState struct {
	ID       uint64 `json:"id"`
	InFlight int    `json:"inFlightRead"`
	// OldestInFlight is the HLC of the oldest version that binds the session; 0: it is unbound.
	OldestInFlight causal.HLC `json:"oldestInFlightRead"`
	Rings          []string   `json:"rings"`
	Incomplete     int        `json:"incompleteWrites"`
}

// State returns the state of the whole deployment.
func (d *Deployment) State() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	st := State{WAN: d.wanState()}
	d.observer.state(&st)
	now := time.Now().UnixMilli()
	d.topo.Nodes(func(n topology.Node) {
		if n.Part != topology.Coordinator {
			return
		}
		o := d.topo.OriginOf(n)
		os := OriginState{Origin: o, DC: d.topo.DCs[n.DC].Name, RV: map[string]causal.HLC{}}
		os.Group = d.groupState(n)
		if c := d.serving(n); c != nil {
			os.Up = true
			c.Inspect(func(m *coordinator.Coordinator) {
				e := m.Known().Entry(o)
				os.SV, os.SVLagMs = e.SV, now-e.SV.WallMs()
				for r, h := range e.RV {
					os.RV[d.topo.Rings[r].Name] = h
				}
				os.Incomplete, os.Bytes = m.Pending()
				for _, x := range m.Exclusions() {
					if x.Without > 0 {
						os.Without = append(os.Without, d.topo.DCs[x.DC].Name)
					}
				}
			})
		}
		st.Origins = append(st.Origins, os)
	})
	for dc := range d.topo.DCs {
		st.DataCenters = append(st.DataCenters, d.dcState(topology.DC(dc), now))
	}
	return st
}

// serving returns the member that serves a coordinator, or nil.
func (d *Deployment) serving(n topology.Node) (best *node.Coordinator) {
	for _, m := range d.topo.MembersOf(n) {
		c := d.parts[m].coordinator
		if c != nil && !c.Leadership().IsZero() && (best == nil || c.Leadership().Compare(best.Leadership()) > 0) {
			best = c
		}
	}
	return best
}

// groupStatus returns what a part that is up says about its group; false if it has none.
func (p *part) groupStatus() (s group.Status, ok bool) {
	switch {
	case p.coordinator != nil:
		return p.coordinator.Status(), true
	case p.member != nil:
		return p.member.Status(), true
	}
	return s, false
}

func (d *Deployment) groupState(n topology.Node) (g GroupState) {
	var config group.Config
	last, serves := uint64(0), false // of the log of the member that serves
	logs := map[uint8]uint64{}
	for _, m := range d.topo.MembersOf(n) {
		ms := MemberState{Member: m.Member}
		if s, ok := d.parts[m].groupStatus(); ok {
			ms.Up, ms.Role, ms.Problem = true, s.Role.String(), s.Problem()
			logs[m.Member] = s.Last
			if s.Role == group.Serving {
				last, serves = max(last, s.Last), true
			}
			if s.Config.Epoch > config.Epoch {
				config = s.Config
			}
		}
		g.Members = append(g.Members, ms)
	}
	g.Epoch, g.Primary = config.Epoch, config.Primary.Name
	for i := range g.Members {
		m := &g.Members[i]
		if has, up := logs[m.Member]; up && serves {
			m.Behind = new(last - min(last, has))
		}
		m.InGroup = slices.ContainsFunc(config.Members, func(id group.ID) bool {
			return id.Name == fmt.Sprint(m.Member)
		})
	}
	return g
}

func (d *Deployment) dcState(id topology.DC, now int64) DCState {
	dc := d.topo.DCs[id]
	s := DCState{Name: dc.Name, Ring: d.topo.Rings[dc.Ring].Name, BoundBy: []SessionState{}}
	for i := range dc.Shards {
		s.Middlemen = append(s.Middlemen, d.middlemanState(topology.Node{DC: id, Part: topology.Middleman,
			Index: uint64(i)}))
	}
	for i := range dc.Caches {
		cs := CacheState{Index: uint64(i)}
		if c := d.parts[topology.Node{DC: id, Part: topology.Cache, Index: uint64(i)}].cache; c != nil {
			cs.Up = true
			c.Inspect(func(m *cache.Cache) {
				cs.Entries, cs.Bytes = m.Size()
				cs.Stats = m.Stats()
			})
		}
		s.Caches = append(s.Caches, cs)
	}
	for _, f := range d.frontsOf(id) {
		d.addSidecar(&s, f, now)
	}
	return s
}

// addSidecar adds a sidecar and its sessions to the state of its data center.
func (d *Deployment) addSidecar(s *DCState, f *redisFront, now int64) {
	s.Connected += f.server.Connections()
	f.sidecar.Inspect(func(m *session.Sidecar) {
		addStats(&s.Sidecar, m.Stats())
		s.MinSVLagMs = max(s.MinSVLagMs, now-m.Stability().MinSV().WallMs())
		m.EachSession(func(id uint64, status session.Status) {
			s.Sessions++
			if status.Restrictions == 0 && status.IncompleteWrites == 0 {
				return
			}
			ss := SessionState{ID: d.listedID(f, id), InFlight: status.Restrictions,
				OldestInFlight: status.OldestRestriction.HLC, Incomplete: status.IncompleteWrites, Rings: []string{}}
			for r, ring := range d.topo.Rings {
				if status.Rings.Has(topology.RingID(r)) {
					ss.Rings = append(ss.Rings, ring.Name)
				}
			}
			s.BoundBy = append(s.BoundBy, ss)
		})
	})
}

// listedID returns a number for a session that no other session of its data center has: sidecars number their sessions
// alike.
func (d *Deployment) listedID(f *redisFront, id uint64) uint64 {
	return id*uint64(d.o.Sidecars) + uint64(f.number)
}
