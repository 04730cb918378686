package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// A shard of each ring becomes so slow that it takes less than is written. Its writes wait, and nothing that repairs
// may make that worse: coordinators that are there are not taken for silent, what is adopted of others and what is sent
// again is bounded, and when the load ends, what has accumulated is complete in the time that the shards need for it.
func TestABacklogOfSlowShardsDrainsAndRepairsAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		bytes int // of a value
		fault func(w *World)
		// Messages for each put, and bytes of put-after for each byte of puts and ring, at most.
		adopted, sent float64
	}{
		{"all are there", 5, func(*World) {}, 0, 5},
		{"a data center is cut off for 6 s", 5, func(w *World) {
			w.net.isolate(0, 1)
			w.schedule(int64(6*time.Second), func() { w.net.isolate(0, -1) })
		}, 1, 5},
		{"a coordinator is down for 12 s", 5, func(w *World) {
			n := w.nodes[w.topo.Leader(0)]
			w.crash(n)
			w.schedule(int64(12*time.Second), func() { w.restart(n) })
		}, 1, 5},
		{"large values", 4 << 20, func(*World) {}, 0, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOverload(t, tt.bytes)
			o.w.Run(5*time.Second, nil)
			tt.fault(o.w)
			o.w.Run(12*time.Second, nil)
			o.stopped = true
			incomplete, began := o.incomplete(), o.w.now
			drained := o.w.Run(10*time.Minute, o.w.isQuiescent)
			took := time.Duration(o.w.now - began)
			adopted := float64(o.kinds[causal.KindAdoptPut]) / float64(o.puts)
			sent := float64(o.putBytes) / float64(o.puts*tt.bytes*len(o.w.topo.Rings))
			t.Logf(
				"%d puts, %d incomplete when the load ended, complete after %s (%v); %.2f times adopted, %.2f times "+
					"sent; %s", o.puts, incomplete, took, drained, adopted, sent, o)
			if incomplete < o.puts/2 {
				t.Errorf(
					"only %d of %d puts were incomplete when the load ended: the shards are not slow enough to show "+
						"anything", incomplete, o.puts)
			}
			if work := time.Duration(incomplete) * o.perPut; took > work+20*time.Second {
				t.Errorf("the backlog drained in %s (%v), and is %s of work", took, drained, work)
			}
			if adopted > tt.adopted {
				t.Errorf("for each put %.2f were sent by adopters, want %.2f", adopted, tt.adopted)
			}
			if sent > tt.sent {
				t.Errorf("puts were sent %.2f times to each ring, want %.2f", sent, tt.sent)
			}
		})
	}
}

// overload is a deployment with a slow shard in each ring.
type overload struct {
	w        *World
	load     *workload
	keys     []string
	rng      *rand.Rand
	stopped  bool
	puts     int
	perPut   time.Duration
	kinds    map[causal.Kind]int
	value    []byte
	think    time.Duration
	putBytes int // of values in put-afters
}

func newOverload(t *testing.T, valueBytes int) *overload {
	t.Helper()
	dcs := make([]topology.DataCenter, 3)
	rtt := make([][]float64, 3)
	var rings []topology.Ring
	for i := range dcs {
		dcs[i] = topology.DataCenter{Name: fmt.Sprint("d", i), Coordinators: 1, Caches: 1, Shards: 2}
		rings = append(rings, topology.Ring{Name: fmt.Sprint("r", i), DCs: []topology.DC{topology.DC(i)}})
		rtt[i] = []float64{80, 80, 80}
		rtt[i][i] = 0
	}
	topo, err := topology.New(1, dcs, rings, rtt)
	if err != nil {
		t.Fatal(err)
	}
	o := &overload{rng: rand.New(rand.NewPCG(1, 2)), kinds: map[causal.Kind]int{}, value: make([]byte, valueBytes),
		think: 100 * time.Millisecond}
	service := 5 * time.Millisecond
	if valueBytes > 1<<20 {
		service, o.think = 100*time.Millisecond, 2*time.Second
	}
	o.w = NewWorld(topo, Settings{Seed: 1, Cache: true, Level: causal.Snapshot,
		ProductionPace: true, Lease: 3 * time.Second,
		KeepMs: 3000})
	o.w.delivered = func(m *causal.Message) {
		if o.kinds[m.Kind]++; m.Kind == causal.KindPutAfter {
			o.putBytes += len(m.PutAfter().Record.Value.Data)
		}
	}
	o.load = &workload{world: o.w, pending: map[uint64]*client{}, issuing: true}
	for i := 0; len(o.keys) < 2000; i++ {
		if key := fmt.Sprint("key", i); topo.Owner(0, topology.SlotOf(key)).Index == 0 {
			o.keys = append(o.keys, key)
		}
	}
	o.perPut = 3 * service // the reads and the write of a put
	o.w.Run(time.Second, nil)
	for dc := range topo.DCs {
		sidecar := o.w.AddSidecar(topology.DC(dc), 1, o.load.results)
		for id := uint64(1); id <= 8; id++ {
			withMachine(o.w, sidecar, func(m *session.Sidecar, _ causal.Now) { m.Open(id) })
			p := &client{load: o.load, id: id, sidecar: sidecar, scripted: true}
			o.w.schedule(o.rng.Int64N(int64(time.Second)), func() { o.next(p) })
		}
	}
	for _, n := range o.w.order {
		if n.id.Part == topology.Middleman && n.id.Index == 0 {
			n.disk.service = int64(service)
		}
	}
	o.stall()
	return o
}

// stall makes the slow storages do nothing for seconds again and again, as those do that write values of megabytes.
func (o *overload) stall() {
	if o.stopped {
		return
	}
	for _, n := range o.w.order {
		if n.disk != nil && n.disk.service > 0 {
			n.disk.busyUntil = max(n.disk.busyUntil, o.w.now) + int64(stallTime)
		}
	}
	o.w.schedule(int64(stallTime)*5/4, o.stall)
}

const stallTime = 4 * time.Second

func (o *overload) next(p *client) {
	if o.stopped {
		return
	}
	o.puts++
	key := o.keys[o.rng.IntN(len(o.keys))]
	p.onResult = func(*session.Result) { o.w.schedule(int64(o.think), func() { o.next(p) }) }
	p.issue(session.Op{Kind: session.OpPut, Key: key, Value: causal.Value{Data: o.value}})
}

func (o *overload) incomplete() (n int) {
	for _, node := range o.w.order {
		if c := serving(node); c != nil {
			writes, _ := c.Pending()
			n += writes
		}
	}
	return n
}

func (o *overload) String() string {
	var all []causal.Kind
	for k := range o.kinds {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b causal.Kind) int { return o.kinds[b] - o.kinds[a] })
	text := ""
	for _, k := range all[:min(len(all), 12)] {
		text += fmt.Sprintf("%s %d, ", k, o.kinds[k])
	}
	return text
}
