package kubectl

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/topology"
)

func TestExplainKeyShowsTheSlotAndTheOwnerInEveryRing(t *testing.T) {
	probed := roundTrips{"virginia": {"virginia": 400 * time.Microsecond, "oregon": 63100 * time.Microsecond,
		"paris": 81 * time.Millisecond}}
	for name, c := range map[string]struct {
		key, from  string
		trips      roundTrips
		unmeasured error
	}{
		"key":            {key: "post:1"},
		"key-tagged":     {key: "{user:1}:cart", from: "virginia", trips: probed},
		"key-unmeasured": {key: "post:1", from: "paris", trips: probed},
		"key-forbidden":  {key: "post:1", from: "virginia", unmeasured: errors.New("pods/proxy is forbidden")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.pod(t, "orders-oregon-shard-0-0").Status.Conditions[0].Status = corev1.ConditionFalse
			var out bytes.Buffer
			if err := writeKey(&out, keyView{store: w.store, configuration: w.configuration(t), parts: w.parts,
				key: c.key, from: c.from, trips: c.trips,
				unmeasured: c.unmeasured}); err != nil {
				t.Fatal(err)
			}
			golden(t, name, out.String())
		})
	}
}

// TestExplainKeyShowsThePreviousOwnerDuringResharding adds a shard in virginia and picks a key that moves to it.
func TestExplainKeyShowsThePreviousOwnerDuringResharding(t *testing.T) {
	w := newFixture(t)
	configuration := *w.configuration(t)
	dcs := slices.Clone(configuration.Topology.DCs)
	dcs[0].Shards, dcs[0].ShardsBefore = 3, 2
	var err error
	if configuration.Topology, err = topology.New(configuration.Topology.Epoch+1, dcs, configuration.Topology.Rings,
		nil); err != nil {
		t.Fatal(err)
	}
	in := keyView{store: w.store, configuration: &configuration, parts: w.parts}
	for i := 0; configuration.Topology.Owner(0, topology.SlotOf(in.key)) != (topology.Node{Part: topology.Middleman,
		Index: 2}); i++ {
		in.key = fmt.Sprint("key-", i)
	}
	var out bytes.Buffer
	if err := writeKey(&out, in); err != nil {
		t.Fatal(err)
	}
	golden(t, "key-resharding", out.String())
}

// TestTheNearestShardIsTheOneThatSidecarsRead varies round trips; a data center that does not answer is farthest.
func TestTheNearestShardIsTheOneThatSidecarsRead(t *testing.T) {
	w := newFixture(t)
	for _, c := range []struct {
		oregon, paris time.Duration
		nearest       string
	}{
		{60 * time.Millisecond, 80 * time.Millisecond, "america"},
		{80 * time.Millisecond, 60 * time.Millisecond, "europe"},
		{-1, 80 * time.Millisecond, "europe"},
	} {
		in := keyView{store: w.store, configuration: w.configuration(t), parts: w.parts, from: "virginia",
			trips: roundTrips{"virginia": {"virginia": time.Millisecond, "oregon": c.oregon, "paris": c.paris}}}
		in.key = keyOwnedBy(t, w, "oregon")
		var out bytes.Buffer
		if err := writeKey(&out, in); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, "nearest") && !strings.HasPrefix(line, c.nearest) {
				t.Errorf("with %s to oregon and %s to paris: %s; want %s", c.oregon, c.paris, line, c.nearest)
			}
		}
		if strings.Count(out.String(), "nearest") != 1 {
			t.Errorf("want one nearest shard:\n%s", out.String())
		}
	}
}

// keyOwnedBy returns a key that a data center owns in its ring.
func keyOwnedBy(t *testing.T, w *fixture, dc string) string {
	t.Helper()
	for i := range 1000 {
		key := fmt.Sprint("key-", i)
		var out bytes.Buffer
		if err := writeKey(&out, keyView{store: w.store, configuration: w.configuration(t), parts: w.parts,
			key: key}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "\namerica   "+dc) {
			return key
		}
	}
	t.Fatalf("%s owns none of 1000 keys", dc)
	return ""
}

func TestExplainKeyRejectsAnUnknownDataCenterAndListsTheKnownOnes(t *testing.T) {
	w := newFixture(t)
	err := writeKey(&bytes.Buffer{}, keyView{store: w.store, configuration: w.configuration(t), parts: w.parts,
		key: "k", from: "mars"})
	if err == nil || !strings.Contains(err.Error(), "use one of virginia, oregon, paris") {
		t.Error(err)
	}
}
