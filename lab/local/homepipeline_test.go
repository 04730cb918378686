package local_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The connections to a sidecar share one session. Their pipelines of updates are executed at the homes of the keys, and
// what one of them does is no reason to refuse a command of another one.
func TestPipelinedUpdatesOfManyConnectionsAreExact(t *testing.T) {
	const connections, pipelines, length, keys = 8, 30, 16, 40
	d := startExact(t, 2)
	var all sync.WaitGroup
	for i, addr := range d.Endpoints()[0].Sidecars {
		for n := range connections {
			all.Go(func() {
				// on a machine that is busy otherwise, a pipeline takes longer than the client would wait
				c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 1, ReadTimeout: time.Minute})
				defer c.Close()
				rng := rand.New(rand.NewPCG(uint64(i), uint64(n)))
				for range pipelines {
					p := c.Pipeline()
					for range length {
						p.Incr(t.Context(), fmt.Sprint("n:", rng.IntN(keys)))
					}
					replies, _ := p.Exec(t.Context())
					for _, r := range replies {
						if r.Err() != nil {
							t.Errorf("%v: %v", r.Args(), r.Err())
						}
					}
				}
			})
		}
	}
	all.Wait()
	c := redis.NewClient(&redis.Options{Addr: d.Endpoints()[0].Sidecars[0], MaxRetries: -1})
	defer c.Close()
	sum := 0
	for k := range keys {
		n, err := c.Get(t.Context(), fmt.Sprint("n:", k)).Int()
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if want := len(d.Endpoints()[0].Sidecars) * connections * pipelines * length; sum != want {
		t.Errorf("the counters have %d, after %d increments", sum, want)
	}
}

// What a command of a pipeline replies does not depend on those after it, also if it writes nothing.
func TestPipelinedUpdatesThatChangeNothingReplyInTheirOrder(t *testing.T) {
	d := startExact(t, 2)
	c := redis.NewClient(&redis.Options{Addr: d.Endpoints()[0].Sidecars[0], MaxRetries: -1})
	defer c.Close()
	for _, pipeline := range [][2]string{
		{"set k abc|del k|append k abc|setrange k 2 |append k d|del k", "OK 1 3 3 4 1"},
		{"set k 5|expire k 100|setnx k 1|del k|setnx k 5|setnx k 6|del k", "OK 1 0 1 1 0 1"},
		{"incr k|setnx k 5|incrby k 9223372036854775807|append k d|del k",
			"1 0 ERR increment or decrement would overflow 2 1"},
		{"append k x|incr k|persist k|expire k 777|del k",
			"1 ERR value is not an integer or out of range 0 1 1"},
	} {
		p := c.Pipeline()
		for command := range strings.SplitSeq(pipeline[0], "|") {
			var args []any
			for arg := range strings.SplitSeq(command, " ") {
				args = append(args, arg)
			}
			p.Do(t.Context(), args...)
		}
		commands, _ := p.Exec(t.Context())
		var replies []string
		for _, r := range commands {
			reply, _ := r.(*redis.Cmd)
			if v, err := reply.Result(); err != nil {
				replies = append(replies, err.Error())
			} else {
				replies = append(replies, fmt.Sprint(v))
			}
		}
		if got := strings.Join(replies, " "); got != pipeline[1] {
			t.Errorf("%s: %s; want %s", pipeline[0], got, pipeline[1])
		}
	}
}
