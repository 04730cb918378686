package processes_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
)

// A coordinator is killed under load and started again. Every write that was in flight is answered, and with the truth.
func TestWritesInFlightSurviveAKillOfTheirCoordinator(t *testing.T) {
	d := deploy(t, waitForCoordinators)
	w := d.writeOften(t, "a", 8)
	defer w.stop()
	for range 3 {
		w.await(t, 500)
		d.kill("a-coordinator")
		d.restart("a-coordinator")
	}
	w.await(t, 500)
}

// waitForCoordinators makes writes wait for a machine that is busy and starts processes slowly.
func waitForCoordinators(c *contract.Config) {
	c.Session.WriteTimeout = contract.Duration(2 * time.Minute)
}

// waitForMembers makes reads wait for such a machine as well. An operation without an answer fails anyway, or the
// test does, which waits for later ones.
func waitForMembers(c *contract.Config) {
	waitForCoordinators(c)
	c.Session.ReadTimeout = c.Session.WriteTimeout
}

// frequentWriters write to a key each, again and again. Every write must succeed, and each reads its last one at the
// end.
type frequentWriters struct {
	answered atomic.Int64
	stopped  atomic.Bool
	running  sync.WaitGroup

	longest atomic.Int64 // how long the slowest write took, in nanoseconds
}

func (d *deployment) writeOften(t *testing.T, dc string, connections int) *frequentWriters {
	w := &frequentWriters{}
	for i := range connections {
		c, key, last := d.client(dc), fmt.Sprint("writer", i), 0
		w.running.Go(func() {
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for n := 1; !w.stopped.Load(); n++ {
				<-tick.C
				began := time.Now()
				if err := c.Set(t.Context(), key, n, 0).Err(); err != nil {
					t.Errorf("write %d of %s: %v", n, key, err)
					continue
				}
				last = n
				w.answered.Add(1)
				for took := int64(time.Since(began)); ; {
					if longest := w.longest.Load(); took <= longest || w.longest.CompareAndSwap(longest, took) {
						break
					}
				}
			}
			if got, err := c.Get(t.Context(), key).Int(); err != nil || got != last {
				t.Errorf("%s was last written as %d, and is read as %d, %v", key, last, got, err)
			}
		})
	}
	return w
}

// slowest returns how long the slowest write since the last call took.
func (w *frequentWriters) slowest() time.Duration { return time.Duration(w.longest.Swap(0)) }

// await waits until some more writes were answered.
func (w *frequentWriters) await(t *testing.T, more int64) {
	t.Helper()
	until := w.answered.Load() + more
	eventually(t, "writes", func() error {
		if n := w.answered.Load(); n < until {
			return fmt.Errorf("%d of %d", n, until)
		}
		return nil
	})
}

func (w *frequentWriters) stop() {
	w.stopped.Store(true)
	w.running.Wait()
}
