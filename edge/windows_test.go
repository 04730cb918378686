package edge

import (
	"math"
	"testing"
	"time"
)

func TestHalfOfTheWindowOfATunnelFillsALongPath(t *testing.T) {
	const rate, roundTrip = 16_000_000, 250 * time.Millisecond
	if underWay := rate * roundTrip.Seconds(); streamWindow/2 < underWay {
		t.Errorf("half of a window is %d bytes; %d bytes per second over %s take %.0f", streamWindow/2, rate,
			roundTrip, underWay)
	}
	if connectionWindow < maxStreams*streamWindow || connectionWindow > math.MaxInt32 {
		t.Errorf("the window of a connection is %d: it must hold those of %d tunnels, and HTTP/2 allows %d",
			connectionWindow, maxStreams, math.MaxInt32)
	}
}

func TestConnectionsToAPeerAreTriedUntilTheirTimeout(t *testing.T) {
	const step = 300 * time.Millisecond // of Envoy, between the addresses of a peer
	// There is a further try when PeerTimeout has ended one.
	needed := 0
	for left := peerConnectTimeout; left > 0; left -= PeerTimeout {
		needed += 1 + int(left/step)
	}
	if connectTries < needed {
		t.Errorf("%d tries, but in %s there may be %d", connectTries, peerConnectTimeout, needed)
	}
	in := Input{StoreID: "s", DataCenter: "a"}
	for address, want := range map[string]int{"192.0.2.1:7501": connectTries, "eu.example.com:7501": 1} {
		c := in.peerCluster(Peer{DataCenter: "b", Address: address}, parts)
		if got := 1 + len(c.LoadAssignment.Endpoints[0].LbEndpoints[0].GetEndpoint().AdditionalAddresses); got != want {
			t.Errorf("%s is tried %d times, want %d: DNS says which addresses a name has", address, got, want)
		}
	}
}
