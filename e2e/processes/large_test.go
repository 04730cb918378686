package processes_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/contract"
)

// liveHeap returns what a process holds in memory after a garbage collection, in MiB.
func (p *proc) liveHeap(t *testing.T) int {
	t.Helper()
	_, _, err := p.get("/debug/pprof/heap?gc=1")
	must(t, err)
	bytes, ok := p.metric("go_memstats_heap_alloc_bytes")
	if !ok {
		t.Fatal("the process does not report its heap")
	}
	return int(bytes) >> 20
}

// readBeside reads and writes few keys over a connection of its own until stop is called, which returns how many
// commands were answered, and the first error.
func (d *deployment) readBeside(t *testing.T) (stop func() (int64, error)) {
	var done atomic.Bool
	var answered atomic.Int64
	var first error
	var running sync.WaitGroup
	c := d.client("a")
	running.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for i := 0; !done.Load() && first == nil; i++ {
			<-tick.C
			if first = c.Set(t.Context(), fmt.Sprint("small", i%10), i, 0).Err(); first == nil {
				first = c.Get(t.Context(), fmt.Sprint("small", i%7)).Err()
			}
			answered.Add(2)
		}
	})
	return func() (int64, error) {
		done.Store(true)
		running.Wait()
		return answered.Load(), first
	}
}

func manyKeys(name string, n int, value ...any) []any {
	args := []any{name}
	for i := range n {
		args = append(append(args, fmt.Sprint("key", i)), value...)
	}
	return args
}

// A million keys in one command must neither fail the commands of others nor stay in memory.
func TestCommandsOfManyKeysLeaveOthersAlone(t *testing.T) {
	const many, most = 20_000, 200_000
	d := deploy(t, func(c *contract.Config) { c.Session.Scope = contract.ScopePod })
	o := *d.client("a").Options()
	o.ReadTimeout = 3 * patience
	large := goredis.NewClient(&o)
	defer large.Close()
	must(t, large.Set(t.Context(), "small0", 0, 0).Err())
	sidecar := d.procs["a-sidecar"]
	before := sidecar.liveHeap(t)
	stop := d.readBeside(t)

	do := func(want any, args ...any) {
		t.Helper()
		if got, err := large.Do(t.Context(), args...).Result(); err != nil || want != nil && got != want {
			t.Errorf("%s of %d arguments: %.100v, %v; want %v", args[0], len(args)-1, got, err, want)
		}
	}
	for i := range 10 {
		must(t, large.Set(t.Context(), fmt.Sprint("small", i), 0, 0).Err())
	}
	do("OK", manyKeys("MSET", many, "value")...)
	got, err := large.Do(t.Context(), manyKeys("MGET", many)...).Slice()
	if err != nil || len(got) != many || got[many-1] != "value" {
		t.Errorf("MGET: %d values, %v", len(got), err)
	}
	do(int64(many), manyKeys("EXISTS", most)...)
	do(int64(many), manyKeys("UNLINK", many)...)
	err = large.Do(t.Context(), manyKeys("MGET", most)...).Err()
	if err == nil || !strings.Contains(err.Error(), "more than the limit of 65536") {
		t.Errorf("MGET of %d keys: %v", most, err)
	}

	answered, err := stop()
	if err != nil || answered == 0 {
		t.Errorf("beside them, %d commands were answered, then: %v", answered, err)
	}
	t.Logf("%d commands were answered beside them", answered)
	eventually(t, "the memory of the sidecar to be released", func() error {
		if now := sidecar.liveHeap(t); now > before+64 {
			return fmt.Errorf("%d MiB before, %d MiB now", before, now)
		}
		return nil
	})
}

// Clients that send large commands and never finish them must not take more memory than all clients may.
func TestCommandsThatAreNeverFinishedTakeABoundedAmountOfMemory(t *testing.T) {
	const clients, limit = 40, 128 << 20
	d := deploy(t, func(c *contract.Config) { c.Limits.Redis.ClientBytes = limit })
	sidecar := d.procs["a-sidecar"]
	before := sidecar.liveHeap(t)
	stop := d.readBeside(t)
	part := make([]byte, 15<<20)
	for range clients {
		conn, err := net.Dial("tcp", sidecar.redis)
		must(t, err)
		defer conn.Close()
		// Most of an MSET of four values. A client that is closed meanwhile sees that as an error.
		_, err = fmt.Fprintf(conn, "*9\r\n$4\r\nMSET\r\n")
		for i := 0; err == nil && i < 4; i++ {
			_, err = fmt.Fprintf(conn, "$1\r\n%d\r\n$%d\r\n%s\r\n", i, len(part), part[:len(part)-(i+1)/4*10])
		}
	}
	eventually(t, "clients to be closed", func() error {
		if closed, _ := sidecar.metric("causalstore_redis_connections_evicted_total"); closed < clients/2 {
			return fmt.Errorf("%v are", closed)
		}
		return nil
	})
	if now := sidecar.liveHeap(t); now > before+2*limit>>20 {
		t.Errorf("the sidecar takes %d MiB, before it was %d MiB", now, before)
	}
	if answered, err := stop(); err != nil || answered == 0 {
		t.Errorf("beside them, %d commands were answered, then: %v", answered, err)
	}
}
