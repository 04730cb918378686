package process

import (
	"math"
	"strings"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

// peers reports how the other data centers are found by a first coordinator. It is nil for other coordinators, and for
// members that follow, which do not probe.
func (p *process) peers(c *coordinatorPart) []contract.Peer {
	if p.self.Group() != p.topo().Leader(p.self.DC) || c.c.Role() != group.Serving {
		return nil
	}
	trips := map[topology.DC]float64{}
	c.c.Inspect(func(m *coordinator.Coordinator) {
		m.ForEachRoundTrip(func(dc topology.DC, ms float64) { trips[dc] = ms })
	})
	return describePeers(p.topo(), p.self.DC, p.linksByDC(), trips, p.version)
}

// linksByDC returns the dialed links to the parts of each data center.
func (p *process) linksByDC() map[topology.DC][]transport.LinkStats {
	all := map[topology.DC][]transport.LinkStats{}
	for _, l := range p.net.Stats().Links {
		if l.Dialed {
			all[l.Node.DC] = append(all[l.Node.DC], l)
		}
	}
	return all
}

// describePeers reports how the other data centers are found, by the links to their parts and by the round trips in
// milliseconds, which are negative if there is no answer.
func describePeers(t *topology.Topology, self topology.DC, links map[topology.DC][]transport.LinkStats,
	trips map[topology.DC]float64, version string) (all []contract.Peer) {
	for i := range t.DCs {
		dc := topology.DC(i)
		if dc == self {
			continue
		}
		peer := contract.Peer{DataCenter: t.DCs[dc].Name}
		ms, probed := trips[dc]
		describeLinks(&peer, links[dc], probed && ms < 0, version)
		if probed && ms >= 0 && peer.LinksUp > 0 {
			rounded := math.Round(ms*100) / 100
			peer.RoundTripMs = &rounded
		}
		if peer.State != "" {
			all = append(all, peer)
		}
	}
	return all
}

// describeLinks sets what the links to the parts of a data center tell of it. The state stays empty while none has come
// up or failed.
func describeLinks(peer *contract.Peer, links []transport.LinkStats, silent bool, version string) {
	worst := transport.NoFailure
	for _, l := range links {
		peer.Links++
		if l.Up {
			peer.LinksUp++
			if l.Version != "" && l.Version != version {
				peer.Version = shorten(l.Version)
			}
		}
		if l.Failure > worst {
			worst, peer.Error = l.Failure, shorten(l.LastError)
		}
	}
	switch {
	case worst == transport.FailureOtherManifest:
		peer.State = contract.PeerOtherManifest
	case worst == transport.FailureNotTrusted:
		peer.State = contract.PeerNotTrusted
	case peer.LinksUp > 0 && !silent && peer.Version != "":
		peer.State = contract.PeerOtherVersion
	case peer.LinksUp > 0 && !silent:
		peer.State = contract.PeerConnected
	case worst == transport.FailureUnresolved:
		peer.State = contract.PeerUnresolved
	case worst == transport.FailureUnreachable, silent:
		peer.State = contract.PeerUnreachable
	}
}

// shorten bounds a text of a report.
func shorten(s string) string {
	if len(s) > contract.MaxPeerText {
		s = strings.ToValidUTF8(s[:contract.MaxPeerText-len("…")], "") + "…"
	}
	return s
}
