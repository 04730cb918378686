package process

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

func TestTheReportOfAPeerSaysWhatIsKnownOfIt(t *testing.T) {
	top := mustLoad(t, good, topology.Coordinator).Topology
	up := transport.LinkStats{Dialed: true, Up: true, Version: "v1"}
	down := func(f transport.Failure) transport.LinkStats {
		return transport.LinkStats{Dialed: true, Failure: f, LastError: "it is " + f.String()}
	}
	ms := func(v float64) *float64 { return &v }
	const answered, silent, unprobed = 80.123, -1, 0
	for name, c := range map[string]struct {
		links []transport.LinkStats
		trip  float64
		want  contract.Peer
	}{
		"nothing is known":                      {nil, unprobed, contract.Peer{}},
		"it is being dialed for the first time": {[]transport.LinkStats{{Dialed: true}}, unprobed, contract.Peer{}},
		"all links are up": {[]transport.LinkStats{up, up}, answered,
			contract.Peer{State: contract.PeerConnected, Links: 2, LinksUp: 2, RoundTripMs: ms(80.12)}},
		"links are up, and nobody answers": {[]transport.LinkStats{up, up}, silent,
			contract.Peer{State: contract.PeerUnreachable, Links: 2, LinksUp: 2}},
		"one of two processes is down": {[]transport.LinkStats{up, down(transport.FailureUnreachable)}, answered,
			contract.Peer{State: contract.PeerConnected, Links: 2, LinksUp: 1, RoundTripMs: ms(80.12),
				Error: "it is unreachable"}},
		"all are down": {[]transport.LinkStats{down(transport.FailureUnreachable)}, silent,
			contract.Peer{State: contract.PeerUnreachable, Links: 1, Error: "it is unreachable"}},
		"names do not resolve": {[]transport.LinkStats{down(transport.FailureUnresolved),
			down(transport.FailureUnreachable)}, silent,
			contract.Peer{State: contract.PeerUnresolved, Links: 2, Error: "it is unresolved"}},
		"one does not trust this one": {[]transport.LinkStats{up, down(transport.FailureNotTrusted)}, answered,
			contract.Peer{State: contract.PeerNotTrusted, Links: 2, LinksUp: 1, RoundTripMs: ms(80.12),
				Error: "it is notTrusted"}},
		"one has another manifest": {[]transport.LinkStats{down(transport.FailureNotTrusted),
			down(transport.FailureOtherManifest), up}, answered,
			contract.Peer{State: contract.PeerOtherManifest, Links: 3, LinksUp: 1, RoundTripMs: ms(80.12),
				Error: "it is otherManifest"}},
		"one has another version": {[]transport.LinkStats{up, {Dialed: true, Up: true, Version: "v2"}}, answered,
			contract.Peer{State: contract.PeerOtherVersion, Links: 2, LinksUp: 2, RoundTripMs: ms(80.12),
				Version: "v2"}},
		"one does not say its version": {[]transport.LinkStats{{Dialed: true, Up: true}}, answered,
			contract.Peer{State: contract.PeerConnected, Links: 1, LinksUp: 1, RoundTripMs: ms(80.12)}},
	} {
		trips := map[topology.DC]float64{}
		if c.trip != unprobed {
			trips[0] = c.trip
		}
		var want []contract.Peer
		if c.want.State != "" {
			c.want.DataCenter = "us"
			want = append(want, c.want)
		}
		got := describePeers(top, 1, map[topology.DC][]transport.LinkStats{0: c.links,
			1: {down(transport.FailureUnreachable)}}, trips, "v1")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestTheTextsOfAReportAreBounded(t *testing.T) {
	top := mustLoad(t, good, topology.Coordinator).Topology
	long := strings.Repeat("é", contract.MaxPeerText)
	got := describePeers(top, 1,
		map[topology.DC][]transport.LinkStats{
			0: {{Dialed: true, Failure: transport.FailureUnreachable, LastError: long},
				{Dialed: true, Up: true, Version: long}}}, nil, "v1")
	if len(got) != 1 || len(got[0].Error) > contract.MaxPeerText || len(got[0].Version) > contract.MaxPeerText ||
		!strings.HasSuffix(got[0].Error, "é…") {
		t.Errorf("%+v", got)
	}
}
