package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
)

// peersConnected holds if every ring acknowledges the writes of this region, which shows that it can be reached. What
// is known to be wrong comes before what is unknown, and a cause before its effects.
func peersConnected(v *view) verdict {
	peers, unprobed := v.peersElsewhere()
	wrong := notConnected(peers)
	notServing := v.ringsNotServing()
	switch {
	case len(v.Store.Spec.Rings) == 1 && len(wrong) == 0:
		return yes(v1alpha1.ReasonOneRing, "there is only one ring")
	case len(wrong) > 0:
		return no(reasonOf(wrong), "%s%s%s", describePeers(wrong, v.created()),
			also("rings that do not acknowledge writes", v.behind), v.describeUnasked())
	case len(v.behind) > 0:
		return no(v1alpha1.ReasonPeersBehind,
			"rings that do not acknowledge writes: %s; check their data centers, the network to them, and that all "+
				"regions have the same manifest (kubectl causal status with a --context for each)%s",
			strings.Join(v.behind, ", "), v.describeUnasked())
	case len(notServing) > 0:
		return unknown(v1alpha1.ReasonPeersNotServing, "rings that do not serve all of their data now: %s%s",
			strings.Join(notServing, "; "), v.describeUnasked())
	case len(v.unasked) > 0:
		return unknown(v1alpha1.ReasonPeersUnasked, "coordinators whose lag is unknown: %s",
			strings.Join(v.unasked, ", "))
	case !v.measured:
		return unknown(v1alpha1.ReasonPeersUnknown,
			"no coordinator in this region has reported yet how far the rings are behind")
	case len(unprobed) > 0:
		return unknown(v1alpha1.ReasonPeersUnknown,
			"no first coordinator in this region has reported yet whether the shards of these data centers answer: %s",
			strings.Join(unprobed, ", "))
	}
	if others := otherVersions(peers); others != "" {
		return yes(v1alpha1.ReasonPeersVersion,
			"every ring acknowledges the writes of this region; parts of another version run in %s", others)
	}
	return yes(v1alpha1.ReasonPeersAcknowledge, "every ring acknowledges the writes of this region")
}

func (v *view) describeUnasked() string {
	if len(v.unasked) == 0 {
		return ""
	}
	return "; coordinators whose lag is unknown: " + strings.Join(v.unasked, ", ")
}

// peer is how a data center of another region is found from here.
type peer struct {
	dc, region, ring string
	edge             string // the address at which its edge is dialed from here, if it is
	state            contract.PeerState
	linked           bool // some link to its parts is up
	away             bool // nothing of its region answers
	version          string
	why              string // stable texts only: those of other states name ports and times
}

// severities orders the known states of peers, the worst first: what somebody has to correct comes before what may
// pass.
var severities = []contract.PeerState{contract.PeerOtherManifest, contract.PeerNotTrusted, contract.PeerUnresolved,
	contract.PeerUnreachable,
	contract.PeerOtherVersion, contract.PeerConnected, ""}

// peersElsewhere returns how the first coordinators here find the data centers of other regions, and those that none
// has probed. A ring lags only while it has writes to acknowledge, so without writes the lag does not tell that it
// cannot be reached. What is here is judged by its pods.
func (v *view) peersElsewhere() (all []peer, unprobed []string) {
	away := map[string]bool{}
	for _, dc := range v.dataCenters {
		if dc.Here {
			continue
		}
		p := peer{dc: dc.Name, region: dc.Region, ring: v.ringOf(dc.Name), edge: v.EdgeOf(dc.Name)}
		for _, pod := range slices.Sorted(maps.Keys(v.Reports)) {
			for _, of := range v.Reports[pod].Peers {
				p.linked = p.linked || of.DataCenter == dc.Name && of.LinksUp > 0
				if rank := slices.Index(severities, of.State); of.DataCenter == dc.Name && rank >= 0 &&
					rank < slices.Index(severities, p.state) {
					p.state, p.version, p.why = of.State, of.Version, ""
					if of.State == contract.PeerOtherManifest {
						p.why = of.Error
					}
				}
			}
		}
		probed, answers := p.state != "", true
		for _, m := range v.Measured {
			if is, ok := m.Answering[dc.Name]; ok {
				probed, answers = true, answers && is
			}
		}
		if !answers && (p.state == "" || p.state.IsConnected()) {
			p.state = contract.PeerUnreachable
		}
		if !probed {
			unprobed = append(unprobed, p.name())
		}
		all = append(all, p)
		if was, known := away[p.region]; !known || was {
			away[p.region] = p.state == contract.PeerUnreachable && !p.linked
		}
	}
	for i := range all {
		all[i].away = away[all[i].region]
	}
	return all, unprobed
}

func (p *peer) name() string { return fmt.Sprintf("%s (ring %s)", p.dc, p.ring) }

// notConnected returns the peers that something is known to be wrong with, the worst first.
func notConnected(peers []peer) (wrong []peer) {
	for _, p := range peers {
		if p.state != "" && !p.state.IsConnected() {
			wrong = append(wrong, p)
		}
	}
	slices.SortStableFunc(wrong, func(a, b peer) int {
		return slices.Index(severities, a.state) - slices.Index(severities, b.state)
	})
	return wrong
}

// reasonOf returns the reason for the first of some peers.
func reasonOf(wrong []peer) string {
	switch first := wrong[0]; first.state {
	case contract.PeerOtherManifest:
		return v1alpha1.ReasonPeersManifest
	case contract.PeerNotTrusted:
		return v1alpha1.ReasonPeersNotTrusted
	case contract.PeerUnresolved:
		return v1alpha1.ReasonPeersUnresolved
	default:
		if first.away {
			return v1alpha1.ReasonRegionsAway
		}
		return v1alpha1.ReasonPeersUnreachable
	}
}

// dialedAt says where the edges here connect to those of a region: a wrong address looks as if the region were away.
func dialedAt(region string, peers []peer) string {
	var all []string
	for i := range peers {
		if peers[i].region == region && peers[i].edge != "" {
			all = append(all, peers[i].edge)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return ", at edge.address " + strings.Join(all, ", ")
}

// describePeers says what is wrong with each peer, and what to do. Regions that are away are one clause each. served is
// whether the store has served before.
func describePeers(wrong []peer, served bool) string {
	effect := "writes wait for it and nothing else does"
	if !served {
		effect = "a new store serves when all its regions have been up once"
	}
	var texts []string
	for i := range wrong {
		p := &wrong[i]
		var text string
		switch p.state {
		case contract.PeerOtherManifest:
			text = p.name() + " is refused: " + cmp.Or(p.why,
				"it runs another list of data centers, other rings or another binding")
		case contract.PeerNotTrusted:
			text = p.name() +
				" and the parts here do not accept each other's certificates; see PeersTrusted here and there"
		case contract.PeerUnresolved:
			text = p.name() + ": its names, or that of the edge, do not resolve; check DNS"
		default:
			if p.away {
				others := slices.IndexFunc(wrong, func(o peer) bool { return o.region == p.region }) < i
				if others {
					continue
				}
				text = fmt.Sprintf("region %s is away: %s; %s; check it and the network to it%s", p.region,
					strings.Join(namesIn(p.region, wrong), ", "), effect,
					dialedAt(p.region, wrong))
			} else {
				text = p.name() + ": its shards do not answer; check them and the network to them"
			}
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

func namesIn(region string, peers []peer) (all []string) {
	for i := range peers {
		if peers[i].region == region {
			all = append(all, peers[i].name())
		}
	}
	return all
}

// otherVersions names the peers that have another version than the first coordinators here.
func otherVersions(peers []peer) string {
	var all []string
	for _, p := range peers {
		if p.version != "" {
			all = append(all, fmt.Sprintf("%s (%s)", p.dc, p.version))
		}
	}
	return strings.Join(all, ", ")
}

func (v *view) ringOf(dc string) string {
	for _, r := range v.Store.Spec.Rings {
		if slices.Contains(r.DataCenters, dc) {
			return r.Name
		}
	}
	return ""
}

// ringsNotServing returns the rings that cannot acknowledge every write now, as far as they are here. One that never
// served is among them.
func (v *view) ringsNotServing() (all []string) {
	for _, r := range v.rings {
		if r.Availability == v1alpha1.RingUnavailable {
			all = append(all, fmt.Sprintf("%s (%s)", r.Name, r.Message))
		}
	}
	return all
}
