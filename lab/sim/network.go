package sim

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// pair is one direction between two nodes.
type pair struct{ from, to topology.Node }

// network delivers messages in order within a connection. It loses or delays messages on a connection that breaks.
type network struct {
	w            *World
	cuts         [][]int        // number of cuts, by the data centers of a direction
	pairCuts     map[pair]int   // number of cuts, by direction
	lag          map[pair]int64 // additional latency, ns
	congestionMs []int64        // by data center: additional latency to all others
	holds        []*hold
	sent, lost   uint64
	signed       []causal.Message // the last signed vectors, for who sends them again
	free         []*delivery      // of messages that have arrived
}

// link is a connection.
type link struct{ lastAt int64 }

// linkTo returns the connection to another node.
func (n *node) linkTo(to *node) *link {
	for len(n.links) <= to.number {
		n.links = append(n.links, link{})
	}
	return &n.links[to.number]
}

// hold keeps matching messages back until a scenario releases it.
type hold struct {
	match  func(*causal.Message) bool
	held   []causal.Message
	lossy  bool // matching messages are lost instead
	sealed bool // later messages pass
}

func (n *network) init(w *World) {
	*n = network{w: w, congestionMs: make([]int64, len(w.topo.DCs))}
	n.heal()
}

// heal removes all cuts and additional latencies.
func (n *network) heal() {
	n.cuts, n.pairCuts, n.lag = make([][]int, len(n.w.topo.DCs)), map[pair]int{}, map[pair]int64{}
	for i := range n.cuts {
		n.cuts[i] = make([]int, len(n.w.topo.DCs))
	}
	clear(n.congestionMs)
}

func (n *network) send(from *node, m *causal.Message) {
	n.sent++
	n.keepSigned(m)
	n.w.claims.observe(m)
	for _, h := range n.holds {
		if !h.sealed && h.match(m) {
			if !h.lossy {
				h.held = append(h.held, *m)
			}
			return
		}
	}
	n.transmit(from, m)
}

// isCut reports whether a direction is cut.
func (n *network) isCut(direction pair) bool {
	return n.cuts[direction.from.DC][direction.to.DC] > 0 || len(n.pairCuts) > 0 && n.pairCuts[direction] > 0
}

func (n *network) transmit(from *node, m *causal.Message) {
	w := n.w
	to := w.route(from, m.To)
	if to == nil || !to.isUp() {
		n.lost++
		return
	}
	direction := pair{from.id, to.id}
	if n.isCut(direction) {
		n.lost++
		return
	}
	if w.settings.PutLossPercent > 0 && w.links.losesPut(m) {
		n.lost++
		w.countFault(PutLoss)
		return
	}
	l, at := from.linkTo(to), w.now+n.delay(direction, to)
	if w.settings.FaultsPerMillion > 0 && !n.injectLinkFault(l, m, to, at) {
		return
	}
	at = max(at, l.lastAt)
	l.lastAt = at
	n.deliverAt(at, m, to)
}

// injectLinkFault draws whether a message that would arrive at a time meets a fault. It reports whether the message is
// still to be delivered: it is not if it was lost, or delayed past later ones.
func (n *network) injectLinkFault(l *link, m *causal.Message, to *node, at int64) bool {
	w := n.w
	switch r := w.rng.IntN(1_000_000 / w.settings.FaultsPerMillion); {
	case r < 1:
		w.links.met(m)
		l.lastAt = w.now // this message and later ones use a new connection and overtake those on the old one
		w.countFault(LinkBreak)
	case r < 4:
		n.lost++
		w.links.met(m)
		w.countFault(LinkLoss)
		return false
	case r < 6:
		n.deliverAt(at+w.rng.Int64N(int64(time.Second)), m, to)
		w.countFault(Duplicate)
	case r < 8:
		n.deliverAt(at+w.rng.Int64N(int64(2*time.Second)), m, to)
		w.links.met(m)
		w.countFault(LinkStuck)
		return false
	}
	if m.Kind == causal.KindTerm && w.rng.IntN(4) > 0 { // terms are rare, and old ones are dangerous
		n.deliverAt(at+w.rng.Int64N(int64(2*time.Second)), m, to)
		w.countFault(Duplicate)
	}
	if m.Kind.IsPut() {
		w.links.delayCopy(at, m)
	}
	return true
}

// deliverAt schedules the arrival of a message.
func (n *network) deliverAt(at int64, m *causal.Message, to *node) {
	n.push(at, delivery{msg: *m, to: to, life: to.life})
}

// push schedules a delivery, in the memory of one that has arrived.
func (n *network) push(at int64, d delivery) {
	var in *delivery
	if last := len(n.free) - 1; last >= 0 {
		in, n.free = n.free[last], n.free[:last]
	} else {
		in = new(delivery)
	}
	*in = d
	n.w.events.push(event{at: at, msg: in})
}

// release takes back the memory of a delivery that has arrived. A machine must not refer to a message after Step.
func (n *network) release(d *delivery) {
	*d = delivery{}
	n.free = append(n.free, d)
}

func (n *network) delay(direction pair, to *node) int64 {
	a, b := direction.from.DC, direction.to.DC
	d := int64(n.w.topo.RTT[a][b] / 2 * 1e6)
	if a != b {
		d += (n.congestionMs[a] + n.congestionMs[b]) * 1e6
	}
	if !n.w.settings.NoRandomness {
		d += n.w.rng.Int64N(d/4 + int64(500*time.Microsecond))
	}
	if len(n.lag) > 0 {
		d += n.lag[direction]
	}
	return d + int64(50*time.Microsecond) + n.w.slowDelay(to)
}

// slowDelay draws the additional delay of a slow node.
func (w *World) slowDelay(n *node) int64 {
	if n.slowUntil > w.now {
		return w.rng.Int64N(n.slowBy + 1)
	}
	return 0
}

// cut adds delta cuts between two data centers; -1 removes one.
func (n *network) cut(a, b topology.DC, delta int) {
	n.cuts[a][b] += delta
	n.cuts[b][a] += delta
}

// isolate adds delta cuts between a data center and all others.
func (n *network) isolate(dc topology.DC, delta int) {
	for other := range n.w.topo.DCs {
		if topology.DC(other) != dc {
			n.cut(dc, topology.DC(other), delta)
		}
	}
}

// cutPair adds delta cuts between two nodes.
func (n *network) cutPair(a, b topology.Node, delta int) {
	n.pairCuts[pair{a, b}] += delta
	n.pairCuts[pair{b, a}] += delta
}
