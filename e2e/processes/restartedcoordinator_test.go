package processes_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
)

// A coordinator is killed under load and started again. Every write that was in flight is answered, and with the truth.
func TestWritesInFlightSurviveAKillOfTheirCoordinator(t *testing.T) {
	d := deploy(t, func(c *contract.Config) {
		c.Session.WriteTimeout = contract.Duration(2 * time.Minute) // a machine that is busy starts processes slowly
	})
	const connections = 8
	var answered atomic.Int64
	var stop atomic.Bool
	var writers sync.WaitGroup
	defer func() {
		stop.Store(true)
		writers.Wait()
	}()
	for i := range connections {
		c, key, last := d.client("a"), fmt.Sprint("writer", i), 0
		writers.Go(func() {
			for n := 1; !stop.Load(); n++ {
				err := c.Set(t.Context(), key, n, 0).Err()
				switch {
				case err == nil:
					last = n
					answered.Add(1)
				case strings.HasPrefix(err.Error(), "UNKNOWN"):
					t.Errorf("write %d of %s: %v", n, key, err)
				default:
					t.Logf("write %d of %s: %v", n, key, err)
				}
			}
			if got, err := c.Get(t.Context(), key).Int(); err != nil || got != last {
				t.Errorf("%s was last written as %d, and is read as %d, %v", key, last, got, err)
			}
		})
	}
	await := func(more int64) {
		t.Helper()
		until := answered.Load() + more
		eventually(t, "writes", func() error {
			if n := answered.Load(); n < until {
				return fmt.Errorf("%d of %d", n, until)
			}
			return nil
		})
	}
	for range 3 {
		await(500)
		d.kill("a-coordinator")
		d.restart("a-coordinator")
	}
	await(500)
}
