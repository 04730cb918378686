package local_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
)

// Producers and consumers at two sidecars of a data center use a queue. Each item is taken once, and the items of a
// producer are taken in their order.
func TestAQueueIsExactInADataCenter(t *testing.T) {
	const producers, each = 3, 40
	d := startExact(t, 2)
	ctx, ports := t.Context(), d.Endpoints()[0].Sidecars
	var all sync.WaitGroup
	for n := range producers {
		all.Go(func() {
			c := oneSession(t, ports[n%len(ports)])
			for i := range each {
				if err := c.RPush(ctx, "queue", fmt.Sprintf("%d:%03d", n, i)).Err(); err != nil {
					t.Errorf("RPUSH: %v", err)
				}
			}
		})
	}
	var mu sync.Mutex
	times := map[string]int{}
	for n := range 2 {
		all.Go(func() {
			c := oneSession(t, ports[n])
			last := make([]string, producers)
			for until := time.Now().Add(time.Minute); time.Now().Before(until); {
				item, err := c.LPop(ctx, "queue").Result()
				if errors.Is(err, redis.Nil) {
					mu.Lock()
					isOver := len(times) == producers*each
					mu.Unlock()
					if isOver {
						return
					}
					time.Sleep(5 * time.Millisecond)
					continue
				}
				if err != nil {
					t.Errorf("LPOP: %v", err)
					return
				}
				producer := item[0] - '0'
				if item <= last[producer] {
					t.Errorf("%s was taken after %s", item, last[producer])
				}
				last[producer] = item
				mu.Lock()
				times[item]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for item, n := range times {
		if n != 1 {
			t.Errorf("%s was taken %d times", item, n)
		}
	}
	if len(times) != producers*each {
		t.Errorf("%d of %d items were taken", len(times), producers*each)
	}
}

// Two data centers push to both ends of a list while they are cut off from each other, one of them removes what it has
// seen, and both give an element another text. Afterwards both have the same list, in the order of time.
func TestListsOfTwoDataCentersMerge(t *testing.T) {
	for _, scope := range []node.Scope{node.ScopeDataCenter, node.ScopePod} {
		t.Run(string(scope), func(t *testing.T) {
			d := start(t, local.Options{Scope: scope, Level: causal.Snapshot, Cache: true})
			here := oneSession(t, endpoint(t, d, "us-east-1"))
			there := oneSession(t, endpoint(t, d, "ap-southeast-2"))
			do := func(c *redis.Conn, line string) {
				t.Helper()
				var args []any
				for _, arg := range strings.Fields(line) {
					args = append(args, arg)
				}
				if err := c.Do(t.Context(), args...).Err(); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				time.Sleep(2 * time.Millisecond) // what follows is later by the clocks
			}
			do(here, "RPUSH log a b c")
			do(here, "RPUSH queue q1 q2 q3")
			do(here, "RPUSH tags x y x")
			awaitAllRings(t, here)
			awaitList(t, there, "log", "a b c")
			awaitList(t, there, "queue", "q1 q2 q3")
			awaitList(t, there, "tags", "x y x")
			cutAmericaFromAsia(t, d)
			for i := range 3 {
				do(here, fmt.Sprint("RPUSH log e", 2*i))
				do(there, fmt.Sprint("RPUSH log e", 2*i+1))
			}
			do(here, "LPUSH log f1 f2")
			do(there, "LPUSH log g1 g2")
			do(there, "LINSERT log BEFORE b before-b")
			do(here, "LREM log 0 b")
			do(there, "LSET log 2 A")

			do(here, "LPOP queue")
			do(there, "RPUSH queue q4")
			do(there, "LPUSH queue q0")
			do(here, "LPOP queue")

			do(here, "LREM tags 0 x")
			do(there, "LSET tags 0 z")
			do(there, "RPUSH tags x")
			heal(t, d)
			for _, c := range []*redis.Conn{here, there} {
				awaitAllRings(t, c)
			}
			for _, c := range []*redis.Conn{here, there} {
				awaitList(t, c, "log", "g2 g1 f2 f1 A before-b c e0 e1 e2 e3 e4 e5")
				awaitList(t, c, "queue", "q0 q3 q4")
				awaitList(t, c, "tags", "y x")
			}
		})
	}
}

func awaitAllRings(t *testing.T, c *redis.Conn) {
	t.Helper()
	if n, err := c.Do(t.Context(), "CAUSAL", "WAIT", "all", 60_000).Int(); err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
}

func cutAmericaFromAsia(t *testing.T, d *local.Deployment) {
	t.Helper()
	for _, from := range []string{"us-east-1", "us-west-1", "us-west-2", "eu-west-1"} {
		for _, to := range []string{"ap-northeast-1", "ap-southeast-1", "ap-southeast-2"} {
			if err := d.Inject(t.Context(), local.Fault{Kind: "cut", From: from, To: to}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func heal(t *testing.T, d *local.Deployment) {
	t.Helper()
	if err := d.Inject(t.Context(), local.Fault{Kind: "heal"}); err != nil {
		t.Fatal(err)
	}
}

// awaitList waits until a list has the given elements.
func awaitList(t *testing.T, c *redis.Conn, key, want string) {
	t.Helper()
	var got []string
	var err error
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if got, err = c.LRange(t.Context(), key, 0, -1).Result(); err == nil && strings.Join(got, " ") == want {
			return
		}
	}
	t.Fatalf("%s is %s, %v; want %s", key, strings.Join(got, " "), err, want)
}

// Random commands at four data centers, with cuts: when all have arrived, all have the same lists. No element is there
// twice, and none that its data center was told is removed.
func TestListsConvergeUnderFaults(t *testing.T) {
	d := startExact(t, 1)
	ctx := t.Context()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	names := []string{"us-east-1", "eu-west-1", "ap-southeast-2", "sa-east-1"}
	sessions := make([]*redis.Conn, len(names))
	for i, name := range names {
		sessions[i] = oneSession(t, endpoint(t, d, name))
	}
	var mu sync.Mutex
	popped := map[string]bool{}
	var all sync.WaitGroup
	for i, c := range sessions {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for n := range 120 {
				key, element := fmt.Sprint("l:", r.IntN(3)), fmt.Sprintf("%d:%d", i, n)
				last := fmt.Sprintf("%d:%d", r.IntN(len(names)), r.IntN(n+1))
				commands := [][]any{{"RPUSH", key, element, element + "b"}, {"LPUSH", key, element}, {"RPUSH", key, element},
					{"LINSERT", key, "BEFORE", last, element}, {"LINSERT", key, "AFTER", last, element}, {"LPOP", key},
					{"RPOP", key}, {"LREM", key, 0, last}, {"LTRIM", key, 0, 20}, {"EXPIRE", key, 1000},
					{"LSET", key, 0, element}, {"LMOVE", "l:0", "l:1", "LEFT", "RIGHT"}, {"RPUSH", "t", element},
					{"SADD", "t", element}, {"DEL", "t"}, {"LRANGE", key, 0, -1}}
				command := commands[r.IntN(len(commands))]
				text, err := c.Do(ctx, command...).Text() // a type may be wrong, a home away
				if err == nil && (command[0] == "LPOP" || command[0] == "RPOP") {
					mu.Lock()
					popped[fmt.Sprint(key, " ", text)] = true
					mu.Unlock()
				}
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
	heal(t, d)
	all.Wait()
	for _, c := range sessions {
		awaitAllRings(t, c)
	}
	read := func(c *redis.Conn) (text string, lists [3][]string) {
		for k := range lists {
			key := fmt.Sprint("l:", k)
			list, err := c.LRange(ctx, key, 0, -1).Result()
			ttl, err2 := c.ExpireTime(ctx, key).Result()
			text += fmt.Sprintln(key, list, ttl, err, err2)
			lists[k] = list
		}
		either, err := c.Type(ctx, "t").Result()
		return text + fmt.Sprintln(either, err), lists
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		texts, lists := make([]string, len(sessions)), [3][]string{}
		for i, c := range sessions {
			texts[i], lists = read(c)
		}
		if len(slices.Compact(slices.Sorted(slices.Values(texts)))) == 1 {
			checkLists(t, lists, popped)
			return
		}
		if time.Now().After(until) {
			t.Fatalf("the data centers differ:\n%v", texts)
		}
	}
}

// checkLists checks lists that all data centers have. LMOVE in two of them may bring an element to l:1 twice, and after
// it was popped.
func checkLists(t *testing.T, lists [3][]string, popped map[string]bool) {
	t.Helper()
	for k, list := range lists {
		if k == 1 {
			continue
		}
		if len(slices.Compact(slices.Sorted(slices.Values(list)))) != len(list) {
			t.Errorf("l:%d has elements twice: %v", k, list)
		}
		for _, element := range list {
			if popped[fmt.Sprintf("l:%d %s", k, element)] {
				t.Errorf("%s of l:%d was popped", element, k)
			}
		}
	}
}
