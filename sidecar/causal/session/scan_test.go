package session

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// replyScan answers a Scan.
func (r *rig) replyScan(request *causal.Message, reply causal.ScanReply) {
	s := request.Scan()
	reply.ID = s.ID
	if reply.Map == 0 {
		reply.Map = s.Map
	}
	r.step(reply.Message(request.To, request.From))
}

func TestAScanGoesThroughTheShardsOfARingPageByPage(t *testing.T) {
	r := newRig(t)
	id := r.start(Op{Kind: OpScan, Limit: 7})
	request := r.request(causal.KindScan)
	if s := request.Scan(); request.To != r.shard(near) || s.After != "" || s.Limit != 7 || s.Seen != 0 ||
		s.Map != r.topo.Map(near) {
		t.Fatalf("asked %s for %+v", request.To, s)
	}
	r.replyScan(request, causal.ScanReply{Keys: []string{"a", "b"}, Next: "here"})
	res := r.mustResult(id)
	if !slices.Equal(res.Keys, []string{"a", "b"}) || res.Scan.Done {
		t.Fatalf("first page: %+v", res)
	}
	id = r.start(Op{Kind: OpScan, Scan: res.Scan})
	request = r.request(causal.KindScan)
	if request.Scan().After != "here" {
		t.Errorf("continues at %q", request.Scan().After)
	}
	r.replyScan(request, causal.ScanReply{Keys: []string{"c"}})
	if res = r.mustResult(id); !slices.Equal(res.Keys, []string{"c"}) || !res.Scan.Done {
		t.Errorf("last page: %+v", res)
	}
}

// An own write that is named with the first page may come into storage before a later page is read.
func TestAScanNamesAnOwnWriteWithOnePageOfAShard(t *testing.T) {
	r := newRig(t)
	r.write("k", "v", ownVersion(10))
	id := r.start(Op{Kind: OpScan})
	r.replyScan(r.request(causal.KindScan), causal.ScanReply{Keys: []string{"a"}, Next: "b"})
	first := r.mustResult(id)
	id = r.start(Op{Kind: OpScan, Scan: first.Scan})
	r.replyScan(r.request(causal.KindScan), causal.ScanReply{Keys: []string{"b", "k"}, Next: "l"})
	second := r.mustResult(id)
	id = r.start(Op{Kind: OpScan, Scan: second.Scan})
	r.replyScan(r.request(causal.KindScan), causal.ScanReply{Keys: []string{"k", "l"}})
	third := r.mustResult(id)
	if !slices.Equal(first.Keys, []string{"a", "k"}) || !slices.Equal(second.Keys, []string{"b"}) ||
		!slices.Equal(third.Keys, []string{"l"}) {
		t.Errorf("pages: %q, %q, %q", first.Keys, second.Keys, third.Keys)
	}
}

// Who else gets the message reads the same list.
func TestAScanDoesNotChangeTheReply(t *testing.T) {
	r := newRig(t)
	r.write("k", "v", ownVersion(10))
	id := r.start(Op{Kind: OpScan})
	r.replyScan(r.request(causal.KindScan), causal.ScanReply{Keys: []string{"a"}, Next: "b"})
	first := r.mustResult(id)
	r.start(Op{Kind: OpScan, Scan: first.Scan})
	keys := []string{"b", "k", "b", "l"}
	r.replyScan(r.request(causal.KindScan), causal.ScanReply{Keys: keys})
	if !slices.Equal(keys, []string{"b", "k", "b", "l"}) {
		t.Errorf("the list of the reply became %q", keys)
	}
}

// A write that completes while the shard is asked is in no list of own writes when the reply is here, and the shard may
// have been asked before it had the write.
func TestAScanNamesAnOwnWriteThatCompletesMeanwhile(t *testing.T) {
	showsFault(t, causal.ScanWithoutOwn, func(r *rig) string {
		r.write("k", "v", ownVersion(10))
		id := r.start(Op{Kind: OpScan})
		request := r.request(causal.KindScan)
		r.complete(ownVersion(10))
		r.replyScan(request, causal.ScanReply{})
		if res := r.mustResult(id); !slices.Contains(res.Keys, "k") {
			return "the own write is not named"
		}
		return ""
	})
}

func TestABoundSessionScansARingThatHasWhatItHasSeen(t *testing.T) {
	showsFault(t, causal.ScanAnyRing, func(r *rig) string {
		r.read("k", version(10), causal.InFlight, far)
		r.start(Op{Kind: OpScan})
		request := r.request(causal.KindScan)
		if request.To != r.shard(far) || request.Scan().Seen != 10 {
			return "it asks " + request.To.String()
		}
		return ""
	}, noCache)
}

func TestAScanWaitsWhileItsRingLacksWhatTheSessionHasSeen(t *testing.T) {
	r := newRig(t, noCache)
	id := r.start(Op{Kind: OpScan})
	r.replyScan(r.request(causal.KindScan), causal.ScanReply{Next: "here"})
	position := r.mustResult(id).Scan
	r.read("k", version(10), causal.InFlight, far)
	id = r.start(Op{Kind: OpScan, Scan: position})
	if ms := r.sent(causal.KindScan); len(ms) > 0 {
		t.Fatalf("it asks %s", ms[0].To)
	}
	r.receivedUpTo(10, near)
	r.tick(time.Second)
	request := r.request(causal.KindScan)
	if request.To != r.shard(near) || request.Scan().After != "here" {
		t.Errorf("it asks %s after %q", request.To, request.Scan().After)
	}
	r.replyScan(request, causal.ScanReply{})
	if res := r.mustResult(id); res.Err != causal.OK || !res.Scan.Done {
		t.Errorf("got %+v", res)
	}
}

func TestAScanThatCannotContinueSaysSo(t *testing.T) {
	r := newRig(t)
	id := r.start(Op{Kind: OpScan})
	r.replyScan(r.request(causal.KindScan), causal.ScanReply{Next: "here"})
	position := r.mustResult(id).Scan
	for name, reply := range map[string]causal.ScanReply{
		"other shards": {Err: causal.ErrMoved, Map: 99}, "a storage that has restarted": {Err: causal.ErrNotFound},
	} {
		id = r.start(Op{Kind: OpScan, Scan: position})
		r.replyScan(r.request(causal.KindScan), reply)
		if res := r.mustResult(id); res.Err != causal.ErrNotFound {
			t.Errorf("%s: %+v", name, res)
		}
	}
	other := position
	other.Map++
	if res := r.mustResult(r.start(Op{Kind: OpScan, Scan: other})); res.Err != causal.ErrNotFound {
		t.Errorf("a position of another slot map: %+v", res)
	}
}

func TestAScanIsAskedAgainAndMayBeginInAnotherRing(t *testing.T) {
	r := newRig(t)
	id := r.start(Op{Kind: OpScan})
	first := r.request(causal.KindScan)
	r.tick(time.Second)
	second := r.request(causal.KindScan)
	if first.To != r.shard(near) || second.To != r.shard(middle) {
		t.Errorf("it asks %s, then %s", first.To, second.To)
	}
	r.replyScan(first, causal.ScanReply{Keys: []string{"late"}}) // dropped
	r.mustBeUnfinished(id)
	r.replyScan(second, causal.ScanReply{Err: causal.ErrStarting})
	r.mustBeUnfinished(id)
	r.tick(100 * time.Millisecond)
	third := r.request(causal.KindScan)
	r.replyScan(third, causal.ScanReply{Keys: []string{"a"}})
	if res := r.mustResult(id); !slices.Equal(res.Keys, []string{"a"}) || res.Outcome.Ring == topology.NoRing {
		t.Errorf("got %+v", res)
	}
}

// The shard may have an own write in storage and among its pending puts, and a storage may name a key twice in a page.
func TestAScanNamesNoKeyTwiceInOneReply(t *testing.T) {
	r := newRig(t)
	r.write("own", "v", ownVersion(10))
	id := r.start(Op{Kind: OpScan})
	r.replyScan(r.request(causal.KindScan),
		causal.ScanReply{Keys: []string{"pending", "own", "a", "pending", "b", "own"}})
	if res := r.mustResult(id); !slices.Equal(res.Keys, []string{"pending", "own", "a", "b"}) {
		t.Errorf("it names %q", res.Keys)
	}
}

func TestAScanNamesAnOwnWriteWithTheKeysOfItsShard(t *testing.T) {
	twoShards, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 2}},
		[]topology.Ring{{Name: "near", DCs: []topology.DC{0}}}, [][]float64{{0}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *Config) { c.Topology, c.UseCache = twoShards, false })
	for i := range 20 {
		r.write(fmt.Sprint("k", i), "v", ownVersion(10+causal.HLC(i)))
	}
	var all []string
	for res := (Result{}); !res.Scan.Done; {
		id := r.start(Op{Kind: OpScan, Scan: res.Scan})
		request := r.request(causal.KindScan)
		r.replyScan(request, causal.ScanReply{})
		res = r.mustResult(id)
		for _, key := range res.Keys {
			if owner := twoShards.Owner(0, topology.SlotOf(key)); owner != request.To {
				t.Errorf("%s is named with the keys of %s, and belongs to %s", key, request.To, owner)
			}
		}
		all = append(all, res.Keys...)
	}
	if slices.Sort(all); len(all) != 20 || len(slices.Compact(all)) != 20 {
		t.Errorf("the own writes named are %q", all)
	}
}
