package processes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// awaitPeer waits until the coordinator of a data center reports another one in a state.
func (d *deployment) awaitPeer(from, to string, want contract.PeerState) (found contract.Peer) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("%s to find %s %s", from, to, want), func() error {
		r, err := d.procs[from+"-coordinator"].readiness()
		if err != nil {
			return err
		}
		for _, p := range r.Peers {
			if p.DataCenter == to && p.State == want {
				found = p
				return nil
			}
		}
		return fmt.Errorf("peers: %+v", r.Peers)
	})
	return found
}

func TestAFirstCoordinatorReportsWhatIsWrongWithAnotherDataCenter(t *testing.T) {
	certs := newCertificates(t)
	ca := certs.authority("eu", "eu.example.com")
	certs.issueAll(ca)
	certs.trust(ca)
	d := deployWith(t, certs, nil)
	for _, to := range []string{"b", "c"} {
		eventually(t, "a round trip", func() error {
			if p := d.awaitPeer("a", to, contract.PeerConnected); p.LinksUp != p.Links || p.LinksUp == 0 ||
				p.RoundTripMs == nil {
				return fmt.Errorf("%+v", p)
			}
			return nil
		})
	}
	ofC := []string{"c-coordinator", "c-middleman", "c-cache"}
	for _, name := range ofC {
		d.kill(name)
	}
	if p := d.awaitPeer("a", "c", contract.PeerUnreachable); p.Error == "" || p.RoundTripMs != nil {
		t.Errorf("%+v", p)
	}
	d.awaitPeer("a", "b", contract.PeerConnected)

	// c comes back with another manifest: nobody takes part in its links, and everybody says why.
	own := d.config
	own.Binding = causal.Static.String()
	for _, part := range parts {
		c := own
		c.TLS = certs.of("c", part)
		d.writeConfigFile(d.configOf("c", part), c)
	}
	for _, name := range ofC {
		d.start(d.procs[name])
	}
	for _, pair := range [][2]string{{"a", "c"}, {"b", "c"}, {"c", "a"}, {"c", "b"}} {
		if p := d.awaitPeer(pair[0], pair[1], contract.PeerOtherManifest); !strings.Contains(p.Error,
			"another binding; apply the same manifest in all regions") {
			t.Errorf("%s of %s: %+v", pair[0], pair[1], p)
		}
	}
	d.awaitPeer("a", "b", contract.PeerConnected)
	for series, want := range map[string]float64{
		`causalstore_peer_state{data_center="a",index="0",member="1",ring="one",state="otherManifest",to_data_center="c"}`: 1,
		`causalstore_peer_state{data_center="a",index="0",member="1",ring="one",state="connected",to_data_center="c"}`:     0,
		`causalstore_transport_violations_total{data_center="a",index="0",kind="identity",member="1",ring="one"}`:          0,
		`causalstore_transport_violations_total{data_center="a",index="0",kind="certificate",member="1",ring="one"}`:       0,
	} {
		if v, ok := d.procs["a-coordinator"].metric(series); !ok || v != want {
			t.Errorf("%s is %v, %v", series, v, ok)
		}
	}
	if v, ok := d.procs["a-coordinator"].metric(
		`causalstore_transport_violations_total{data_center="a",index="0",kind="manifest",member="1",ring="one"}`); !ok || v == 0 {
		t.Errorf("%v refusals are counted", v)
	}

	d.writeConfig()
	for _, name := range ofC {
		d.kill(name)
		d.restart(name)
	}
	d.awaitPeer("a", "c", contract.PeerConnected)
	a, c := d.client("a"), d.client("c")
	must(t, a.Set(t.Context(), "x", "1", 0).Err())
	awaitValue(t, "c", c, "x", "1")
}
