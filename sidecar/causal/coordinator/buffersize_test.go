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
