package local_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
)

// Clients at two sidecars of a data center count in a hash, and take the members of a set. No count is lost, every
// reply is a number of its own, and each member is taken once.
func TestCollectionsAreExactInADataCenter(t *testing.T) {
	const clients, each, members = 6, 40, 120
	d := startExact(t, 2)
	ctx, ports := t.Context(), d.Endpoints()[0].Sidecars
	first := oneSession(t, ports[0])
	for i := range members {
		if err := first.SAdd(ctx, "items", i).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	counts, taken := map[int64]int{}, map[string]int{}
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			c := oneSession(t, ports[n%len(ports)])
			for i := range each {
				sum, err := c.HIncrBy(ctx, "hash", "hits", 1).Result()
				if err != nil {
					t.Errorf("HINCRBY: %v", err)
					return
				}
				if err := c.HSet(ctx, "hash", fmt.Sprintf("%d:%d", n, i), i).Err(); err != nil {
					t.Errorf("HSET: %v", err)
				}
				member, err := c.SPop(ctx, "items").Result()
				if err != nil && !errors.Is(err, redis.Nil) {
					t.Errorf("SPOP: %v", err)
				}
				mu.Lock()
				if counts[sum]++; err == nil {
					taken[member]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(counts) != clients*each || slices.Max(slices.Collect(maps.Keys(counts))) != clients*each {
		t.Errorf("%d different counts, up to %d; want %d", len(counts),
			slices.Max(slices.Collect(maps.Keys(counts))), clients*each)
	}
	if len(taken) != members || slices.Max(slices.Collect(maps.Values(taken))) != 1 {
		t.Errorf("%d of %d members were taken, one of them %d times", len(taken), members,
			slices.Max(slices.Collect(maps.Values(taken))))
	}
	for _, port := range ports {
		c := oneSession(t, port)
		if n, err := c.HLen(ctx, "hash").Result(); err != nil || n != clients*each+1 {
			t.Errorf("the hash has %d fields, %v; want %d", n, err, clients*each+1)
		}
		if n, err := c.Exists(ctx, "items").Result(); err != nil || n != 0 {
			t.Errorf("there is still a set: %v, %v", n, err)
		}
	}
}

// Two data centers change the same hash and the same set while their rings are cut off from each other. Afterwards both
// have what each has added, and lack what was removed, but for what was added again meanwhile.
func TestCollectionsOfTwoDataCentersMerge(t *testing.T) {
	for _, scope := range []node.Scope{node.ScopeDataCenter, node.ScopePod} {
		t.Run(string(scope), func(t *testing.T) {
			d := start(t, local.Options{Scope: scope, Level: causal.Snapshot, Cache: true})
			ctx := t.Context()
			here := oneSession(t, endpoint(t, d, "us-east-1"))
			there := oneSession(t, endpoint(t, d, "ap-southeast-2"))
			do := func(c *redis.Conn, args ...any) {
				t.Helper()
				if err := c.Do(ctx, args...).Err(); err != nil {
					t.Fatalf("%v: %v", args, err)
				}
			}
			settle := func() {
				t.Helper()
				for _, c := range []*redis.Conn{here, there} {
					if n, err := c.Do(ctx, "CAUSAL", "WAIT", "all", 60_000).Int(); err != nil || n != 1 {
						t.Fatalf("%d, %v", n, err)
					}
				}
			}
			do(here, "HSET", "cart", "apples", 1, "pears", 1, "plums", 1)
			do(here, "SADD", "tags", "a", "b")
			do(here, "HSET", "gone", "f", 1)
			settle()
			awaitHash(t, there, "cart", map[string]string{"apples": "1", "pears": "1", "plums": "1"})
			awaitHash(t, there, "gone", map[string]string{"f": "1"})
			for _, from := range []string{"us-east-1", "us-west-1", "us-west-2", "eu-west-1"} {
				for _, to := range []string{"ap-northeast-1", "ap-southeast-1", "ap-southeast-2"} {
					if err := d.Inject(ctx, local.Fault{Kind: "cut", From: from, To: to}); err != nil {
						t.Fatal(err)
					}
				}
			}
			do(here, "HSET", "cart", "kiwis", 2)
			do(here, "HDEL", "cart", "apples", "pears")
			do(here, "SREM", "tags", "a", "b")
			do(here, "DEL", "gone")
			do(there, "HSET", "cart", "figs", 3, "apples", 7)
			do(there, "SADD", "tags", "b", "c")
			do(there, "HSET", "gone", "g", 1)
			if err := d.Inject(ctx, local.Fault{Kind: "heal"}); err != nil {
				t.Fatal(err)
			}
			settle()
			for _, c := range []*redis.Conn{here, there} {
				awaitHash(t, c, "cart", map[string]string{"kiwis": "2", "figs": "3", "apples": "7", "plums": "1"})
				awaitHash(t, c, "gone", map[string]string{"g": "1"})
				if tags, err := c.SMembers(ctx, "tags").Result(); err != nil || fmt.Sprint(tags) != "[b c]" {
					t.Errorf("the tags are %v, %v", tags, err)
				}
			}
		})
	}
}

// awaitHash waits until a hash has the given fields.
func awaitHash(t *testing.T, c *redis.Conn, key string, want map[string]string) {
	t.Helper()
	var got map[string]string
	var err error
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if got, err = c.HGetAll(t.Context(), key).Result(); err == nil && maps.Equal(got, want) {
			return
		}
	}
	t.Fatalf("%s is %v, %v; want %v", key, got, err, want)
}

// Random commands at several data centers, with cuts: when all have arrived, all data centers have the same hashes and
// sets, as HGETALL and SMEMBERS read them.
func TestCollectionsConvergeUnderFaults(t *testing.T) {
	d := startExact(t, 1)
	ctx := t.Context()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	names := []string{"us-east-1", "eu-west-1", "ap-southeast-2", "sa-east-1"}
	sessions := make([]*redis.Conn, len(names))
	for i, name := range names {
		sessions[i] = oneSession(t, endpoint(t, d, name))
	}
	var all sync.WaitGroup
	for i, c := range sessions {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for range 120 {
				key, element := fmt.Sprint("k:", r.IntN(4)), fmt.Sprint("e", r.IntN(5))
				commands := [][]any{{"HSET", key, element, r.IntN(100)}, {"HDEL", key, element}, {"HINCRBY", key, "n", 1},
					{"DEL", key}, {"SADD", "s:" + key, element}, {"SREM", "s:" + key, element}, {"HSET", key, element, "x"},
					{"SET", "t:" + key, "string"}, {"SADD", "t:" + key, element}, {"DEL", "t:" + key}, {"EXPIRE", key, 1000}}
				_ = c.Do(ctx, commands[r.IntN(len(commands))]...).Err() // a type may be wrong, a home away
			}
		})
	}
	for _, name := range names[:2] {
		time.Sleep(300 * time.Millisecond) // the load goes on meanwhile
		if err := d.Inject(ctx, local.Fault{Kind: "cut", From: name, To: "*"}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(300 * time.Millisecond)
	if err := d.Inject(ctx, local.Fault{Kind: "heal"}); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	read := func(c *redis.Conn) string {
		text := ""
		for k := range 4 {
			key := fmt.Sprint("k:", k)
			hash, err := c.HGetAll(ctx, key).Result()
			ttl, err2 := c.ExpireTime(ctx, key).Result()
			set, err3 := c.SMembers(ctx, "s:"+key).Result()
			either, err4 := c.Type(ctx, "t:"+key).Result()
			text += fmt.Sprintln(key, hash, ttl, set, either, err, err2, err3, err4)
		}
		return text
	}
	for _, c := range sessions {
		if n, err := c.Do(ctx, "CAUSAL", "WAIT", "all", 60_000).Int(); err != nil || n != 1 {
			t.Fatalf("%d, %v", n, err)
		}
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		texts := make([]string, len(sessions))
		for i, c := range sessions {
			texts[i] = read(c)
		}
		if len(slices.Compact(slices.Sorted(slices.Values(texts)))) == 1 {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("the data centers differ:\n%v", texts)
		}
	}
}
