package kubectl

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/partmetrics"
)

// regionsFixture is a store in the clusters of two regions: all is well in one, and the other lacks a cache.
type regionsFixture struct {
	*storeRegions
	clusters map[string]*fixture
}

func newRegionsFixture(t *testing.T) *regionsFixture {
	t.Helper()
	f := &regionsFixture{&storeRegions{namespace: "shop", name: "orders"}, map[string]*fixture{}}
	for _, name := range []string{"us", "eu"} {
		w := newFixtureOf(t, name)
		w.store.UID, w.store.Status = "", v1alpha1.CausalStoreStatus{}
		b, err := os.ReadFile(filepath.Join("testdata", "regions-"+name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(b, &w.store.Status); err != nil {
			t.Fatal(err)
		}
		f.clusters[name] = w
		f.all = append(f.all, &regionStore{context: name, store: w.store})
	}
	lost := f.clusters["eu"].pod(t, "orders-paris-cache-1")
	lost.Status.Conditions[0].Status = corev1.ConditionFalse
	lost.CreationTimestamp = metav1.Time{Time: testTime.Add(-time.Hour)}
	return f
}

// changes are what tests make of two regions.
var changes = map[string]func(*regionsFixture){
	"": func(*regionsFixture) {},
	"-away": func(f *regionsFixture) {
		f.all[1].store, f.all[1].err = nil,
			errors.New("Get \"https://192.0.2.1:6443/api\":\n dial tcp 192.0.2.1:6443: connect: connection refused")
		f.all = append(f.all, &regionStore{context: "ap"},
			&regionStore{context: "us-again", store: f.all[0].store, sameAs: "us"})
	},
	"-differ": func(f *regionsFixture) {
		s := &f.all[1].store.Spec
		s.ID, s.Binding = "00000000-93f4-4f7e-8c0a-5b1f6d2e7a90", v1alpha1.BindingStatic
		slices.Reverse(s.DataCenters)
		s.Rings[0].DataCenters, s.Rings[1].DataCenters = []string{"virginia"}, []string{"oregon", "paris"}
		s.DataCenters[2].Edge.Address = "old.virginia.example.com:15443"
		f.all[1].store.Generation = 2
	},
	"-cut": func(f *regionsFixture) {
		for _, r := range f.all {
			setCondition(r.store, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAllPartsReady,
				"all parts serve")
			setCondition(r.store, v1alpha1.ConditionPeersConnected, metav1.ConditionFalse, v1alpha1.ReasonRegionsAway,
				"no data center of the other region answers")
		}
	},
	"-stale": func(f *regionsFixture) {
		f.all[0].store.Status.HeartbeatTime = &metav1.Time{Time: testTime.Add(-time.Hour)}
		f.all[0].err = errors.New("list the pods of orders: forbidden")
		f.all[1].store.Status.DataCenters[1].Here = true // oregon runs in both
	},
}

func TestStatusShowsAllRegionsOnOneScreen(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		t.Run("regions"+name, func(t *testing.T) {
			f := newRegionsFixture(t)
			changes[name](f)
			pods := map[string]*storePods{}
			for _, r := range f.known() {
				pods[r.context] = &storePods{parts: f.clusters[r.context].parts}
			}
			var out bytes.Buffer
			if err := writeRegionStatus(&out, f.storeRegions, pods, testTime); err != nil {
				t.Fatal(err)
			}
			golden(t, "regions"+name, out.String())
		})
	}
}

// testPeers are the reports of the first coordinators of two regions.
func testPeers() map[string]peerReports {
	trip := 81.26
	return map[string]peerReports{
		"us": {
			"virginia": {
				peers: []contract.Peer{{DataCenter: "oregon", State: contract.PeerConnected, Links: 3, LinksUp: 3,
					RoundTripMs: &trip},
					{DataCenter: "paris", State: contract.PeerOtherVersion, Links: 8, LinksUp: 8, RoundTripMs: &trip,
						Version: "v2"}}}},
		"eu": {
			"paris": {
				peers: []contract.Peer{{DataCenter: "virginia", State: contract.PeerUnreachable, Links: 5,
					Error: "dial edge.virginia.example.com:15443: i/o timeout"}},
			},
		},
	}
}

func TestTopologyDrawsTheDataCentersOfAllRegionsAndTheirLinks(t *testing.T) {
	for _, name := range []string{"", "-away"} {
		t.Run("regions-topology"+name, func(t *testing.T) {
			f := newRegionsFixture(t)
			changes[name](f)
			all := map[string]*regionTopology{}
			for _, r := range f.known() {
				w := f.clusters[r.context]
				all[r.context] = &regionTopology{topologyView{store: r.store, parts: w.parts, zoneOf: w.zoneOf,
					now: testTime}, testPeers()[r.context]}
			}
			all["us"].view.trips = roundTrips{"virginia": {"oregon": 60 * time.Millisecond,
				"paris": 81 * time.Millisecond}}
			all["us"].view.unmeasured = errors.New("read metrics of orders-oregon-cc-0: no route")
			var out bytes.Buffer
			if err := writeRegionTopology(&out, f.storeRegions, all, testTime); err != nil {
				t.Fatal(err)
			}
			golden(t, "regions-topology"+name, out.String())
		})
	}
}

// addTestTraffic adds what a coordinator exports of its links.
func addTestTraffic(t *testing.T, to partmetrics.Families, dc string, n float64) {
	t.Helper()
	f, err := partmetrics.Parse(strings.NewReader(fmt.Sprintf(`# TYPE causalstore_peer_bytes_total counter
causalstore_peer_bytes_total{to_data_center="%s",direction="sent"} %f
causalstore_peer_bytes_total{to_data_center="%s",direction="received"} %f
`, dc, 1e6*n, dc, 1234*n)))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(to, f)
}

func TestTopShowsTheDataCentersOfAllRegionsAndTheTrafficBetweenThem(t *testing.T) {
	for name, once := range map[string]bool{"": false, "-away": true} {
		t.Run("regions-top"+name, func(t *testing.T) {
			f := newRegionsFixture(t)
			changes[name](f)
			all := map[string]*regionReadings{}
			for _, r := range f.known() {
				w := f.clusters[r.context]
				of := &regionReadings{before: allReadings(t, w, testTime, 10),
					now: allReadings(t, w, testTime.Add(5*time.Second), 15), peers: testPeers()[r.context]}
				for i := range of.now {
					if p := of.now[i].process; isCoordinator(w.parts, p.pod) && p.port == plan.PortHTTP &&
						p.dataCenter != "oregon" {
						to := map[string]string{"us": "paris", "eu": "virginia"}[r.context]
						addTestTraffic(t, of.before[i].metrics, to, 10)
						addTestTraffic(t, of.now[i].metrics, to, 15)
					}
					if once {
						of.before = nil
						break
					}
				}
				if r.context == "eu" {
					of.now[0].err = errors.New("dial tcp: no route to host")
				}
				all[r.context] = of
			}
			var out bytes.Buffer
			if err := writeRegionTop(&out, outputFlag{}, f.storeRegions, all, once); err != nil {
				t.Fatal(err)
			}
			golden(t, "regions-top"+name, out.String())
		})
	}
}

// TestManifestsDifferIfPartsRefuseEachOther compares with what the operator gives to the parts, of which they compare
// names, rings and binding.
func TestManifestsDifferIfPartsRefuseEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.CausalStoreSpec)
		refuse bool
	}{
		"nothing":               {func(*v1alpha1.CausalStoreSpec) {}, false},
		"order within a ring":   {func(s *v1alpha1.CausalStoreSpec) { slices.Reverse(s.Rings[0].DataCenters) }, false},
		"order of rings":        {func(s *v1alpha1.CausalStoreSpec) { slices.Reverse(s.Rings) }, true},
		"order of data centers": {func(s *v1alpha1.CausalStoreSpec) { slices.Reverse(s.DataCenters) }, true},
		"name of a ring":        {func(s *v1alpha1.CausalStoreSpec) { s.Rings[0].Name = "americas" }, true},
		"members of rings": {func(s *v1alpha1.CausalStoreSpec) {
			s.Rings[0].DataCenters, s.Rings[1].DataCenters = s.Rings[0].DataCenters[:1], []string{"oregon", "paris"}
		}, true},
		"binding": {func(s *v1alpha1.CausalStoreSpec) { s.Binding = v1alpha1.BindingStatic }, true},
		"id": {func(s *v1alpha1.CausalStoreSpec) {
			s.ID = "00000000-93f4-4f7e-8c0a-5b1f6d2e7a90"
		}, true},
		"shards of a far region": {func(s *v1alpha1.CausalStoreSpec) { s.DataCenters[2].Shards = 8 }, false},
		"image":                  {func(s *v1alpha1.CausalStoreSpec) { s.Image = "causalstore:v2" }, false},
	} {
		a, b := newFixture(t).store, newFixture(t).store
		c.change(&b.Spec)
		v := storeRegions{all: []*regionStore{{context: "a", store: a}, {context: "b", store: b}}}
		a.UID, b.UID = "1", "2"
		if differ := partsSeeDifferent(t, a) != partsSeeDifferent(t, b); differ != c.refuse ||
			(len(v.faults()) > 0) != differ {
			t.Errorf("%s: parts see a difference: %t, want %t; shown: %v", name, differ, c.refuse, v.faults())
		}
	}
}

// partsSeeDifferent renders what parts compare.
func partsSeeDifferent(t *testing.T, s *v1alpha1.CausalStore) string {
	t.Helper()
	p, err := plan.Make(plan.Observed{Store: s, Region: "us", Image: "causalstore:v1",
		Keys: plan.Keys{Storage: "password"}})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("id %s, binding %s:", s.Spec.ID, s.Spec.Binding)
	w := &fixture{}
	for _, o := range p.Apply {
		if m, ok := o.(*corev1.ConfigMap); ok {
			w.maps = append(w.maps, *m)
		}
	}
	top := w.configuration(t).Topology
	for _, dc := range top.DCs {
		text += " " + dc.Name
	}
	for _, r := range top.Rings {
		text += "; " + r.Name
		for _, dc := range r.DCs {
			text += " " + top.DCs[dc].Name
		}
	}
	return text
}
