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

	"github.com/causalstore/causalstore/sidecar/topology"
)

func TestAKeyIsExplainedByItsSlotAndItsOwnerInEveryRing(t *testing.T) {
	probed := trips{"virginia": {"virginia": 400 * time.Microsecond, "oregon": 63100 * time.Microsecond,
		"paris": 81 * time.Millisecond}}
	for name, c := range map[string]struct {
		key, from  string
		trips      trips
		unmeasured error
	}{
		"key":            {key: "post:1"},
		"key-tagged":     {key: "{user:1}:cart", from: "virginia", trips: probed},
		"key-unmeasured": {key: "post:1", from: "paris", trips: probed},
		"key-forbidden":  {key: "post:1", from: "virginia", unmeasured: errors.New("you may not")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.part(t, "orders-oregon-shard-0-0").Status.Conditions[0].Status = corev1.ConditionFalse
			var out bytes.Buffer
			if err := writeKey(&out, place{store: w.store, told: w.told(t), parts: w.parts, key: c.key, from: c.from, trips: c.trips,
				unmeasured: c.unmeasured}); err != nil {
				t.Fatal(err)
			}
			golden(t, name, out.String())
		})
	}
}

// TestWhileShardsChangeAKeyHasAnOwnerBeforeAndAfter: one shard more in virginia, and a key that moves there.
func TestWhileShardsChangeAKeyHasAnOwnerBeforeAndAfter(t *testing.T) {
	w := newWorld(t)
	told := *w.told(t)
	dcs := slices.Clone(told.Topology.DCs)
	dcs[0].Shards, dcs[0].ShardsBefore = 3, 2
	var err error
	if told.Topology, err = topology.New(told.Topology.Epoch+1, dcs, told.Topology.Rings, nil); err != nil {
		t.Fatal(err)
	}
	in := place{store: w.store, told: &told, parts: w.parts}
	for i := 0; told.Topology.Owner(0, topology.SlotOf(in.key)) != (topology.Node{Part: topology.Middleman, Index: 2}); i++ {
		in.key = fmt.Sprint("key-", i)
	}
	var out bytes.Buffer
	if err := writeKey(&out, in); err != nil {
		t.Fatal(err)
	}
	golden(t, "key-moving", out.String())
}

// TestTheNearestShardIsTheOneThatSidecarsRead: near counts, and what does not answer is far.
func TestTheNearestShardIsTheOneThatSidecarsRead(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		oregon, paris time.Duration
		nearest       string
	}{
		{60 * time.Millisecond, 80 * time.Millisecond, "america"}, {80 * time.Millisecond, 60 * time.Millisecond, "europe"},
		{-1, 80 * time.Millisecond, "europe"},
	} {
		in := place{store: w.store, told: w.told(t), parts: w.parts, from: "virginia",
			trips: trips{"virginia": {"virginia": time.Millisecond, "oregon": c.oregon, "paris": c.paris}}}
		in.key = keyIn(t, w, "oregon")
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
			t.Errorf("one shard is nearest:\n%s", out.String())
		}
	}
}

// keyIn finds a key that a data centre owns in its ring.
func keyIn(t *testing.T, w *world, dc string) string {
	t.Helper()
	for i := range 1000 {
		key := fmt.Sprint("key-", i)
		var out bytes.Buffer
		if err := writeKey(&out, place{store: w.store, told: w.told(t), parts: w.parts, key: key}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "\namerica   "+dc) {
			return key
		}
	}
	t.Fatalf("%s owns nothing", dc)
	return ""
}

func TestAnUnknownDataCentreIsRefusedWithThoseThereAre(t *testing.T) {
	w := newWorld(t)
	err := writeKey(&bytes.Buffer{}, place{store: w.store, told: w.told(t), parts: w.parts, key: "k", from: "mars"})
	if err == nil || !strings.Contains(err.Error(), "give one of virginia, oregon, paris") {
		t.Error(err)
	}
}
