package local

import (
	"math"
	"strconv"
	"time"

	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
	"github.com/causalstore/causalstore/version"
)

// layout returns what the page shows of the deployment that does not change.
func (d *Deployment) layout() console.Layout {
	l := console.Layout{Title: "a deployment on this machine", Version: version.Exact(), Faults: true,
		PodSessions: d.o.Scope == node.ScopePod, RunbookBase: console.Runbooks}
	for _, r := range d.topo.Rings {
		l.Rings = append(l.Rings, r.Name)
	}
	for i, dc := range d.topo.DCs {
		site := console.LayoutSite{Name: dc.Name, Ring: d.topo.Rings[dc.Ring].Name,
			Address: d.frontsOf(topology.DC(i))[0].addr}
		if at := dc.Place; at != nil {
			site.Latitude, site.Longitude = &at.Latitude, &at.Longitude
		}
		l.DataCenters = append(l.DataCenters, site)
	}
	return l
}

// snapshot returns the state of the deployment for the page. It takes the lock of each part for a moment, one after the
// other.
func (d *Deployment) snapshot() console.Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now().UnixMilli()
	s := console.Snapshot{AtMs: now, Epoch: d.topo.Epoch, Links: d.links(), Problems: []console.Problem{}}
	for i := range d.topo.DCs {
		id := topology.DC(i)
		dc := console.DataCenter{Name: d.topo.DCs[id].Name, RingLagMs: map[string]*int64{},
			Listed: []console.Session{}}
		for _, r := range d.topo.Rings {
			dc.RingLagMs[r.Name] = nil // unknown
		}
		d.snapshotCoordinators(id, now, &dc)
		d.snapshotSidecars(id, now, &dc)
		d.snapshotCaches(id, &dc)
		dc.Parts = d.snapshotParts(id)
		if d.wan != nil {
			dc.AddedDelayMs = d.wan.Congestion(id).Milliseconds()
		}
		s.DataCenters = append(s.DataCenters, dc)
	}
	d.measureLinks(s.Links)
	s.Problems = append(s.Problems, d.problems(&s)...)
	return s
}

func ptr[T any](v T) *T { return &v }

// lag returns the age of a timestamp; nil if there is none yet.
func lag(h causal.HLC, now int64) *int64 {
	if h == 0 {
		return nil
	}
	return ptr(max(now-h.WallMs(), 0))
}

// older returns the greater one of two ages; unknown if one is unknown.
func older(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	return ptr(max(*a, *b))
}

// greater returns the greater one of an age and another one that may be unknown.
func greater(a *int64, b int64) *int64 {
	if a != nil {
		b = max(*a, b)
	}
	return &b
}

// snapshotCoordinators adds what the coordinators of a data center know. If one of them does not serve, their sum is
// unknown.
func (d *Deployment) snapshotCoordinators(dc topology.DC, now int64, s *console.DataCenter) {
	var writes int
	var bytes, limit int64
	var sv *int64
	var homes *console.Homes
	rv := map[string]*int64{}
	for i := range d.topo.DCs[dc].RunningCoordinators() {
		n := topology.Node{DC: dc, Part: topology.Coordinator, Index: uint64(i)}
		c := d.serving(n)
		if c == nil {
			return
		}
		limit += c.BufferLimit()
		c.Inspect(func(m *coordinator.Coordinator) {
			w, b := m.Pending()
			writes, bytes = writes+w, bytes+int64(b)
			if h, is := m.Home(); is {
				if homes == nil {
					homes = &console.Homes{}
				}
				homes.Keys, homes.Bytes, homes.Waiting = homes.Keys+h.Keys, homes.Bytes+int64(h.Bytes),
					homes.Waiting+h.Waiting
			}
			e := m.Known().Entry(d.topo.OriginOf(n))
			own := lag(e.SV, now)
			if i > 0 {
				own = older(sv, own)
			}
			sv = own
			for r, h := range e.RV {
				name := d.topo.Rings[r].Name
				l := lag(h, now)
				if i > 0 {
					l = older(rv[name], l)
				}
				rv[name] = l
			}
		})
	}
	s.InFlight, s.BufferBytes, s.BufferLimitBytes, s.SVLagMs, s.Homes = &writes, &bytes, &limit, sv, homes
	for name, l := range rv {
		s.RingLagMs[name] = l
	}
}

// snapshotSidecars adds the operations and sessions of a data center.
func (d *Deployment) snapshotSidecars(dc topology.DC, now int64, s *console.DataCenter) {
	s.Connections, s.Sessions, s.Bound, s.Counters = new(int), new(int), new(int), &console.Counters{}
	for _, f := range d.frontsOf(dc) {
		d.snapshotSidecar(f, now, s)
	}
}

// snapshotSidecar adds the operations and sessions of one sidecar.
func (d *Deployment) snapshotSidecar(f *redisFront, now int64, s *console.DataCenter) {
	*s.Connections += f.server.Connections()
	f.sidecar.Inspect(func(m *session.Sidecar) {
		st, sum := m.Stats(), s.Counters
		sum.Own, sum.Near, sum.Home = sum.Own+st.OwnReads, sum.Near+st.NearHits, sum.Home+st.HomeReads
		sum.Cache += st.CacheHits
		sum.Local, sum.Remote, sum.Writes = sum.Local+st.LocalReads, sum.Remote+st.RemoteReads, sum.Writes+st.Puts
		sum.Failed += st.UnavailableOps + st.UnknownPuts
		if least, most := m.Stability().MinSV(), m.Stability().MaxSV(); least > 0 {
			s.CutAgeMs = greater(s.CutAgeMs, *lag(least, now))
			s.SkewMs = greater(s.SkewMs, most.WallMs()-least.WallMs())
		}
		m.EachSession(func(id uint64, is session.Status) {
			*s.Sessions++
			if is.Restrictions == 0 {
				return
			}
			if *s.Bound++; *s.Bound > console.MaxSessions {
				return
			}
			oldest := is.OldestRestriction
			listed := console.Session{ID: d.listedID(f, id), Reads: is.Restrictions,
				OldestMs: max(now-oldest.HLC.WallMs(), 0), Writes: is.IncompleteWrites,
				OldestFrom: d.topo.DCs[d.topo.CoordinatorOf(oldest.Origin).DC].Name, OldestSlot: uint16(is.OldestSlot),
				OldestKey: d.observer.tracer.keyOf(oldest),
				Rings:     []string{}, WaitsFor: []string{}}
			for r, ring := range d.topo.Rings {
				if is.Rings.Has(topology.RingID(r)) {
					listed.Rings = append(listed.Rings, ring.Name)
				} else {
					listed.WaitsFor = append(listed.WaitsFor, ring.Name)
				}
			}
			s.Listed = append(s.Listed, listed)
		})
	})
}

// snapshotCaches adds the size of the caches of a data center. If one of them is down, it is unknown.
func (d *Deployment) snapshotCaches(dc topology.DC, s *console.DataCenter) {
	var entries int
	var bytes int64
	for i := range d.topo.DCs[dc].Caches {
		c := d.parts[topology.Node{DC: dc, Part: topology.Cache, Index: uint64(i)}].cache
		if c == nil {
			return
		}
		c.Inspect(func(m *cache.Cache) {
			e, b := m.Size()
			entries, bytes = entries+e, bytes+int64(b)
		})
	}
	s.CacheEntries, s.CacheBytes = &entries, &bytes
}

// snapshotParts returns the parts of a data center, member by member.
func (d *Deployment) snapshotParts(dc topology.DC) (parts []console.Part) {
	d.topo.Nodes(func(n topology.Node) {
		if n.DC != dc {
			return
		}
		members := d.topo.MembersOf(n)
		for _, m := range members {
			p := d.parts[m]
			s := console.Part{Kind: n.Part.String(), Index: n.Index, State: p.state(),
				Name: n.Part.String() + " " + strconv.FormatUint(n.Index, 10)}
			if len(members) > 1 {
				s.Member = m.Member
				s.Name += " member " + strconv.Itoa(int(m.Member))
			}
			if p.up() {
				s.Version = version.Exact()
			}
			parts = append(parts, s)
		}
	})
	return parts
}

// state returns what a part is doing.
func (p *part) state() console.PartState {
	switch status, grouped := p.groupStatus(); {
	case !p.up():
		return console.PartDown
	case p.hang.isPaused():
		return console.PartHung
	case p.coordinator != nil && !p.coordinator.Leadership().IsZero(), p.alone != nil && p.alone.Serves(),
		p.member != nil && p.serves.Load(), p.cache != nil:
		return console.PartServing
	case grouped && status.Role == group.Following:
		return console.PartFollowing
	}
	return console.PartIdle
}

// links returns the network between data centers as the emulated WAN has it.
func (d *Deployment) links() []console.Link {
	n := len(d.topo.DCs)
	links := make([]console.Link, 0, n*(n-1)/2)
	at := make([]int, n*n)
	for a := range n {
		for b := a + 1; b < n; b++ {
			at[a*n+b], at[b*n+a] = len(links), len(links)
			links = append(links, console.Link{A: d.topo.DCs[a].Name, B: d.topo.DCs[b].Name,
				DeclaredMs: d.topo.RTT[a][b], Bytes: ptr(uint64(0))})
		}
	}
	if d.wan == nil {
		return links
	}
	for _, p := range d.wan.Stats() {
		l := &links[at[int(p.From)*n+int(p.To)]]
		*l.Bytes += p.Bytes
		if !p.Open {
			if p.From < p.To {
				l.CutAB = true
			} else {
				l.CutBA = true
			}
		}
	}
	return links
}

// measureLinks adds the round trips that the leaders measure.
func (d *Deployment) measureLinks(links []console.Link) {
	n := len(d.topo.DCs)
	trips := make([]float64, n*n)
	for a := range n {
		if c := d.serving(d.topo.Leader(topology.DC(a))); c != nil {
			c.Inspect(func(m *coordinator.Coordinator) {
				m.ForEachRoundTrip(func(b topology.DC, ms float64) { trips[a*n+int(b)] = ms })
			})
		}
	}
	i := 0
	for a := range n {
		for b := a + 1; b < n; b++ {
			l := &links[i]
			i++
			if l.CutAB || l.CutBA {
				continue // what was measured before holds no longer
			}
			for _, ms := range []float64{trips[a*n+b], trips[b*n+a]} {
				if ms > 0 && !math.IsInf(ms, 0) {
					l.RoundTripMs = ptr(math.Round(ms*10) / 10)
					break
				}
			}
		}
	}
}
