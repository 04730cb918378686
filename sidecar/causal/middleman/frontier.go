package middleman

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Dependencies on lanes (PROTOCOL LAN-2). A put names the earlier writes of its
// own origin by how far the lanes to the other shards of the ring must have been received, instead of asking each shard
// for each write. A burst of n puts that depend on each other is then visible after one trip across the WAN and one
// inside the ring, and not after n trips. Two rules make that safe:
//
//   - A put becomes visible only when everything in its past is at its shard in this ring (received or, from other
//     origins, visible). So whatever a reader can infer from it is at least staged where the reader will look.
//   - A reader that has seen an in-flight write says how new that was, and a shard makes it wait for staged puts of the
//     key at or below that (stagedread.go).

// frontierKey names the lane of an origin to a shard of this ring.
type frontierKey struct {
	shard  topology.Node
	origin topology.Origin
}

// frontier is how far a lane is known to have come, and the puts that wait for it.
type frontier struct {
	key             frontierKey
	received, clean causal.HLC
	awaitReceived   []laneWait // ascending
	awaitClean      []laneWait // ascending
}

// laneWait is a put that waits until a lane has come to hlc.
type laneWait struct {
	hlc causal.HLC
	put *put
}

// frontiers are those of all lanes of the ring, this shard's included.
type frontiers struct {
	*shared
	host   dependents
	lanes  *lanes
	writes *writes

	byLane  map[frontierKey]*frontier
	ordered []*frontier
	peers   []topology.Node // the other shards of the ring
	changed bool            // since the last message to the peers
	// changedAt is when a change was last sent, and sentAt when anything was.
	changedAt, sentAt int64
}

const (
	// frontierInterval is how often the frontiers are sent without a change, in case messages were lost, and
	// quietFrontierInterval the same once nothing has changed for that long and no put is pending here: then all that
	// was received is acknowledged, and only puts that were sent before that can wait for it.
	frontierInterval      = 200 * time.Millisecond
	quietFrontierInterval = 2 * time.Second
)

func newFrontiers(s *shared, host dependents, ls *lanes, ws *writes) frontiers {
	fs := frontiers{shared: s, host: host, lanes: ls, writes: ws, byLane: map[frontierKey]*frontier{}}
	for _, n := range s.cfg.Topology.RingMiddlemen(s.ring) {
		if n != s.cfg.Self {
			fs.peers = append(fs.peers, n)
		}
	}
	return fs
}

func (fs *frontiers) of(shard topology.Node, o topology.Origin) *frontier {
	k := frontierKey{shard, o}
	f := fs.byLane[k]
	if f == nil {
		f = &frontier{key: k}
		fs.byLane[k] = f
		fs.ordered = append(fs.ordered, f)
	}
	return f
}

// await makes p wait for the lane of its origin to another shard: until received, to be written; until clean, to be
// acknowledged.
func (fs *frontiers) await(p *put, dep causal.Dep) {
	v := dep.Version
	f := fs.of(fs.cfg.Topology.Owner(fs.ring, dep.Slot), v.Origin)
	rv := fs.known.RV(fs.ring, v.Origin)
	if v.HLC > max(f.received, rv) && !fs.cfg.Broken.Has(causal.IgnoreLanes) {
		f.awaitReceived = insertLaneWait(f.awaitReceived, laneWait{v.HLC, p})
		p.unprocessedDeps++
	}
	if v.HLC > max(f.clean, rv) && !fs.cfg.Broken.Has(causal.IgnoreLanesClean) {
		f.awaitClean = insertLaneWait(f.awaitClean, laneWait{v.HLC, p})
		p.uncleanDeps++
	}
}

func insertLaneWait(ws []laneWait, w laneWait) []laneWait {
	i := len(ws)
	for i > 0 && ws[i-1].hlc > w.hlc {
		i--
	}
	return slices.Insert(ws, i, w)
}

// raise raises a frontier, and releases the puts that waited for it.
func (fs *frontiers) raise(now causal.Now, f *frontier, received, clean causal.HLC) {
	f.received, f.clean = max(f.received, received), max(f.clean, clean)
	for len(f.awaitReceived) > 0 && f.awaitReceived[0].hlc <= f.received {
		p := f.awaitReceived[0].put
		f.awaitReceived = f.awaitReceived[1:]
		fs.host.depProcessed(now, p)
	}
	for len(f.awaitClean) > 0 && f.awaitClean[0].hlc <= f.clean {
		p := f.awaitClean[0].put
		f.awaitClean = f.awaitClean[1:]
		fs.host.depClean(now, p)
	}
}

// raiseToRV raises every frontier to RV.
func (fs *frontiers) raiseToRV(now causal.Now) {
	for _, f := range fs.ordered {
		if rv := fs.known.RV(fs.ring, f.key.origin); rv > f.clean {
			fs.raise(now, f, rv, rv)
		}
	}
}

// noteProgress releases the puts that wait for a lane to this shard, and lets the peers be told.
func (fs *frontiers) noteProgress(now causal.Now, o topology.Origin) {
	l := fs.lanes.of(o)
	f := fs.of(fs.cfg.Self, o)
	if l.received > f.received || l.clean > f.clean {
		fs.changed = true
		fs.raise(now, f, l.received, l.clean)
	}
}

// merge takes the frontier of another shard.
func (fs *frontiers) merge(now causal.Now, from topology.Node, f causal.Frontier) {
	if !fs.usesSlotMap(f.Map) || !fs.cfg.Topology.Runs(from) {
		return
	}
	limit := fs.timeLimit(now)
	for p := range f.Lanes() {
		if fs.lanes.of(p.Origin) != nil {
			fs.raise(now, fs.of(from, p.Origin), min(p.Received, limit), min(p.Clean, limit))
		}
	}
}

// nextTick returns when the frontiers are to be sent next.
func (fs *frontiers) nextTick() int64 {
	switch {
	case len(fs.peers) == 0:
		return causal.Never
	case fs.changed:
		return 0
	case fs.writes.pending == 0 && fs.sentAt-fs.changedAt >= int64(quietFrontierInterval):
		return fs.sentAt + int64(quietFrontierInterval)
	}
	return fs.sentAt + int64(frontierInterval)
}

// tick tells the other shards of the ring how far the lanes to this one have come.
func (fs *frontiers) tick(now causal.Now) {
	if now.Mono < fs.nextTick() {
		return
	}
	if fs.changed {
		fs.changedAt = now.Mono
	}
	fs.changed, fs.sentAt = false, now.Mono
	msg := causal.Frontier{Map: fs.slotMap()}
	fs.lanes.addTo(&msg)
	if msg.Empty() {
		return
	}
	for _, n := range fs.peers {
		fs.Send(msg.Message(fs.cfg.Self, n))
	}
}
