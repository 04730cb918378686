package local_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/node"
)

// writeBacklog writes n keys over several connections, as fast as they are accepted, and waits until each connection's
// last write is complete. It returns how long the first and all of that took.
func writeBacklog(tb testing.TB, addr string, n int) (accepted, complete time.Duration) {
	tb.Helper()
	const connections, batch = 4, 500
	value := make([]byte, 100)
	start := time.Now()
	errs := make([]error, connections)
	clients := make([]*redis.Conn, connections)
	var all sync.WaitGroup
	each := func(f func(ctx context.Context, i int) error) {
		for i := range connections {
			all.Go(func() { errs[i] = f(tb.Context(), i) })
		}
		all.Wait()
		for _, err := range errs {
			if err != nil {
				tb.Fatal(err)
			}
		}
	}
	each(func(ctx context.Context, i int) error {
		clients[i] = oneSession(tb, addr)
		for written := 0; written < n/connections; written += batch {
			if _, err := clients[i].Pipelined(ctx, func(p redis.Pipeliner) error {
				for j := range batch {
					p.Set(ctx, fmt.Sprint("backlog:", i, ":", written+j), value, 0)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	accepted = time.Since(start)
	each(func(ctx context.Context, i int) error {
		if done, err := clients[i].Do(ctx, "CAUSAL", "WAIT", "all", 300_000).Int(); err != nil || done != 1 {
			return fmt.Errorf("wait until the writes are in every ring: %d, %w", done, err)
		}
		return nil
	})
	return accepted, time.Since(start)
}

// BenchmarkBacklogOverTheWAN writes 60,000 keys in one data center as fast as they are accepted, and waits until all
// are in every ring. A window of 650 KiB is as many puts of this size as were in flight when 1,024 puts bounded a lane.
func BenchmarkBacklogOverTheWAN(b *testing.B) {
	for _, window := range []int{650 << 10, coordinator.DefaultWindow} {
		for _, from := range []string{"us-east-1", "ap-southeast-1"} {
			b.Run(fmt.Sprintf("window=%dKiB/from=%s", window>>10, from), func(b *testing.B) {
				d := start(b, local.Options{Scope: node.ScopeConnection, Cache: true, Tune: local.Tune{
					Coordinator: func(c *coordinator.Config) { c.Window = window },
				}})
				for range b.N {
					const n = 60_000
					accepted, complete := writeBacklog(b, endpoint(b, d, from), n)
					b.ReportMetric(n/accepted.Seconds(), "accepted/s")
					b.ReportMetric(complete.Seconds(), "s-until-complete")
					b.ReportMetric(0, "ns/op")
				}
			})
		}
	}
}

// BenchmarkHeal cuts a data center off, writes elsewhere, heals the cut, and measures how long it then takes until the
// write is in every ring.
func BenchmarkHeal(b *testing.B) {
	for _, f := range []local.Fault{
		{Kind: "cut", From: "eu-west-1", To: "*"}, {Kind: "cut", From: "eu-west-1", To: "*", OneWay: true},
		{Kind: "cut", From: "*", To: "eu-west-1", OneWay: true}, {Kind: "cut", From: "sa-east-1", To: "*"},
	} {
		for _, length := range []time.Duration{2 * time.Second, 8 * time.Second, 16 * time.Second} {
			b.Run(fmt.Sprintf("%s/oneWay=%v/%v", f.From+"-"+f.To, f.OneWay, length), func(b *testing.B) {
				d := start(b, local.Options{Scope: node.ScopeConnection, Cache: true})
				ctx := b.Context()
				c := oneSession(b, endpoint(b, d, "us-east-1"))
				for range b.N {
					if err := d.Inject(ctx, f); err != nil {
						b.Fatal(err)
					}
					for i := range 50 {
						if err := c.Set(ctx, fmt.Sprint("heal:", i), "x", 0).Err(); err != nil {
							b.Fatal(err)
						}
					}
					time.Sleep(length) // the benchmark measures what comes after a cut of this length
					if err := d.Inject(ctx, local.Fault{Kind: "heal"}); err != nil {
						b.Fatal(err)
					}
					healed := time.Now()
					if done, err := c.Do(ctx, "CAUSAL", "WAIT", "all", 300_000).Int(); err != nil || done != 1 {
						b.Fatalf("wait until the writes are in every ring: %d, %v", done, err)
					}
					b.ReportMetric(time.Since(healed).Seconds(), "s-after-heal")
					b.ReportMetric(0, "ns/op")
				}
			})
		}
	}
}
