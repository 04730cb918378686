package coordinator

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// heap returns the memory that is in use.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// While a ring is away, the bound of the buffer has to hold for writes of any size: small ones took twenty times what
// they counted for, so the memory of the process was at its end long before puts were refused.
func TestTheBufferTakesWhatItCountsFor(t *testing.T) {
	for _, valueBytes := range []int{0, 1, 100, 10_000} {
		h := newHarness(t, 1, 0)
		h.tick(10)
		h.c.cfg.MaxBytes = 16 << 20
		before, busy := heap(), false
		for i := uint64(1); !busy; i++ {
			value := causal.Value{Data: make([]byte, valueBytes)}
			refused, _ := h.put(causal.Put{ID: i, Session: 1, Seq: i, Unanswered: i, Key: fmt.Sprint(i), Value: value})
			for _, m := range ofKind(refused, causal.KindPutReply) {
				busy = m.PutReply().Err == causal.ErrBusy
			}
			if i > 1<<20 {
				t.Fatal("a million writes fit into 16 MiB")
			}
		}
		writes, counted := h.c.Pending()
		if took := heap() - before; took > counted*3/2 {
			t.Errorf("%d writes with values of %d bytes count for %d bytes, and take %d", writes, valueBytes,
				counted, took)
		}
		runtime.KeepAlive(h)
	}
}

func TestTheBufferTakesWhatDependenciesCountFor(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	before := heap()
	for i := range uint64(150) {
		h.put(causal.Put{ID: i, Session: i, Seq: 1, Key: "k", Deps: h.elsewhere(causal.MaxPutDeps)})
	}
	h.log = nil
	if _, counted := h.c.Pending(); heap()-before > counted*6/5 {
		t.Errorf("the writes count for %d bytes, and take %d", counted, heap()-before)
	}
	runtime.KeepAlive(h)
}

// A shard keeps each dependency in several tables until it is met.
func TestWhatIsInFlightToAShardCountsForWhatItTakesThere(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	for i := range uint64(30) {
		h.put(causal.Put{ID: i, Session: i, Seq: 1, Key: "k", Deps: h.elsewhere(causal.MaxPutDeps)})
	}
	l := h.c.laneTo(0, h.c.writes[0].slot)
	deps := 0
	for _, e := range l.queue[l.head:l.next] {
		deps += len(e.w.deps)
	}
	if l.next == 0 || deps*causal.MissingDepBytes > l.flow.limit+causal.MaxPutDeps*causal.MissingDepBytes {
		t.Errorf("%d dependencies are in flight, with a limit of %d bytes", deps, l.flow.limit)
	}
}
