package sim

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// pair is a direction between two nodes.
type pair struct{ from, to topology.Node }

// network delivers in order within a connection, and loses or delays what was on a connection that broke.
type network struct {
	w            *World
	links        map[pair]*link
	cuts         map[[2]topology.DC]int // ordered pairs of DCs, counted
	pairCuts     map[pair]int           // counted
	lag          map[pair]int64         // added delay, ns
	congestionMs []int64                // by DC: added to all its traffic to other DCs
	holds        []*hold
	sent, lost   uint64
}

// link is a connection.
type link struct{ lastAt int64 }

// hold keeps matching messages back until it is released: for scenarios.
type hold struct {
	match func(*causal.Message) bool
	kept  []causal.Message
	drop  bool // what matches is lost
	full  bool // nothing more is kept
}

func (n *network) init(w *World) {
	*n = network{w: w, links: map[pair]*link{}, congestionMs: make([]int64, len(w.topo.DCs))}
	n.heal()
}

// heal ends all cuts and delays.
func (n *network) heal() {
	n.cuts, n.pairCuts, n.lag = map[[2]topology.DC]int{}, map[pair]int{}, map[pair]int64{}
	clear(n.congestionMs)
}

func (n *network) send(from *node, m causal.Message) {
	n.sent++
	for _, h := range n.holds {
		if !h.full && h.match(&m) {
			if !h.drop {
				h.kept = append(h.kept, m)
			}
			return
		}
	}
	n.transmit(m)
}

// severed reports whether nothing gets from one node to another now.
func (n *network) severed(way pair) bool {
	return n.cuts[[2]topology.DC{way.from.DC, way.to.DC}] > 0 || len(n.pairCuts) > 0 && n.pairCuts[way] > 0
}

func (n *network) transmit(m causal.Message) {
	w, way := n.w, pair{m.From, m.To}
	to := w.nodes[m.To]
	if to == nil || !to.up() || n.severed(way) {
		n.lost++
		return
	}
	l := n.links[way]
	if l == nil {
		l = &link{}
		n.links[way] = l
	}
	at := w.now + n.delay(way, to)
	if broken := w.set.BreakLinks; broken > 0 {
		switch r := w.rng.IntN(1_000_000 / broken); {
		case r < 1:
			l.lastAt = w.now // this message and what follows go over a new connection, past what is still on the old
			w.harm(LinkBreak)
		case r < 4:
			n.lost++
			w.harm(LinkLoss)
			return
		case r < 6:
			w.events.push(event{at: at + w.rng.Int64N(int64(time.Second)), msg: &delivery{msg: m, life: to.life}})
			w.harm(Duplicate)
		case r < 8:
			at += w.rng.Int64N(int64(2 * time.Second))
			w.harm(LinkStuck)
			w.events.push(event{at: at, msg: &delivery{msg: m, life: to.life}})
			return
		}
	}
	if w.set.BreakLinks > 0 && m.Kind == causal.KindTerm && w.rng.IntN(4) > 0 { // there are few, and an old one is dangerous
		w.events.push(event{at: at + w.rng.Int64N(int64(2*time.Second)), msg: &delivery{msg: m, life: to.life}})
		w.harm(Duplicate)
	}
	at = max(at, l.lastAt)
	l.lastAt = at
	w.events.push(event{at: at, msg: &delivery{msg: m, life: to.life}})
}

func (n *network) delay(way pair, to *node) int64 {
	a, b := way.from.DC, way.to.DC
	d := int64(n.w.topo.RTT[a][b] / 2 * 1e6)
	if a != b {
		d += (n.congestionMs[a] + n.congestionMs[b]) * 1e6
	}
	if !n.w.set.Quiet {
		d += n.w.rng.Int64N(d/4 + int64(500*time.Microsecond))
	}
	if len(n.lag) > 0 {
		d += n.lag[way]
	}
	return d + int64(50*time.Microsecond) + n.w.slowness(to)
}

// slowness is what a node that is slow takes longer for one thing.
func (w *World) slowness(n *node) int64 {
	if n.slowTil > w.now {
		return w.rng.Int64N(n.slow + 1)
	}
	return 0
}

// cut loses everything between two DCs, counted: -1 takes one cut away.
func (n *network) cut(a, b topology.DC, delta int) {
	n.cuts[[2]topology.DC{a, b}] += delta
	n.cuts[[2]topology.DC{b, a}] += delta
}

// isolate cuts a DC off from all others.
func (n *network) isolate(dc topology.DC, delta int) {
	for other := range n.w.topo.DCs {
		if topology.DC(other) != dc {
			n.cut(dc, topology.DC(other), delta)
		}
	}
}

// cutPair loses everything between two nodes.
func (n *network) cutPair(a, b topology.Node, delta int) {
	n.pairCuts[pair{a, b}] += delta
	n.pairCuts[pair{b, a}] += delta
}
