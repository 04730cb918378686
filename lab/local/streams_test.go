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

func fieldsOf(entries []redis.XMessage) string {
	var texts []string
	for _, e := range entries {
		texts = append(texts, fmt.Sprint(e.Values["f"]))
	}
	return strings.Join(texts, " ")
}

// xadd adds an entry, with an id that the store makes, and returns that.
func xadd(t *testing.T, c *redis.Conn, key, text string) string {
	t.Helper()
	id, err := c.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: []string{"f", text}}).Result()
	if err != nil {
		t.Fatalf("XADD %s: %v", text, err)
	}
	time.Sleep(2 * time.Millisecond) // what follows is later by the clocks
	return id
}

// readGroup reads what is new to a group, which it need not be.
func readGroup(t *testing.T, c *redis.Conn, key, consumer string, count int64) []redis.XMessage {
	t.Helper()
	found, err := c.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: consumer,
		Streams: []string{key, ">"}, Count: count, Block: -1}).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil
	case err != nil:
		t.Errorf("XREADGROUP: %v", err)
		return nil
	}
	return found[0].Messages
}

// Producers and consumers of a group at two sidecars of a data center, of which one consumer dies with what it has not
// acknowledged. Each entry is delivered once, to one consumer, and what is pending is claimed once.
func TestAGroupIsExactInADataCenter(t *testing.T) {
	const producers, each, left = 3, 40, 5
	d := start(t, local.Options{Scope: node.ScopeDataCenter, Level: causal.Snapshot, Cache: true, Sidecars: 2})
	ctx, ports := t.Context(), d.Endpoints()[0].Sidecars
	setup := oneSession(t, ports[0])
	if err := setup.XGroupCreateMkStream(ctx, "jobs", "g", "0").Err(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range producers {
		all.Go(func() {
			c := oneSession(t, ports[n%len(ports)])
			for i := range each {
				if err := c.XAdd(ctx, &redis.XAddArgs{Stream: "jobs", Values: []string{"f", fmt.Sprintf("%d:%03d", n, i)}}).Err(); err != nil {
					t.Errorf("XADD: %v", err)
				}
			}
		})
	}
	var mu sync.Mutex
	times, total := map[string]int{}, 0
	for n := range 4 {
		all.Go(func() {
			c := oneSession(t, ports[n%len(ports)])
			for until := time.Now().Add(time.Minute); time.Now().Before(until); {
				entries := readGroup(t, c, "jobs", fmt.Sprint("consumer", n), 3)
				mu.Lock()
				for _, e := range entries {
					times[fmt.Sprint(e.Values["f"])]++
					total++
				}
				isOver := total >= producers*each
				mu.Unlock()
				for i, e := range entries {
					if n == 3 && i == 0 {
						continue // it forgets one
					}
					if got, err := c.XAck(ctx, "jobs", "g", e.ID).Result(); err != nil || got != 1 {
						t.Errorf("XACK: %d, %v", got, err)
					}
				}
				if isOver {
					return
				}
				if entries == nil {
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	all.Wait()
	for text, n := range times {
		if n != 1 {
			t.Errorf("%s was delivered %d times", text, n)
		}
	}
	if len(times) != producers*each {
		t.Errorf("%d of %d entries were delivered", len(times), producers*each)
	}
	claimAll(t, ports)
}

// claimAll lets two consumers claim what is pending at the same time.
func claimAll(t *testing.T, ports []string) {
	t.Helper()
	pending := oneSession(t, ports[0]).XPending(t.Context(), "jobs", "g").Val().Count
	claimed := make([]int64, 2)
	var both sync.WaitGroup
	for n := range claimed {
		both.Go(func() {
			c := oneSession(t, ports[n%len(ports)])
			for range 50 {
				entries, _, err := c.XAutoClaim(t.Context(), &redis.XAutoClaimArgs{Stream: "jobs", Group: "g",
					Start:    "0",
					Consumer: fmt.Sprint("claims", n), MinIdle: 0, Count: 2}).Result()
				if err != nil {
					t.Errorf("XAUTOCLAIM: %v", err)
				}
				for _, e := range entries { // another one may have claimed it, and acknowledged it, since
					claimed[n] += c.XAck(t.Context(), "jobs", "g", e.ID).Val()
				}
			}
		})
	}
	both.Wait()
	if claimed[0]+claimed[1] != pending {
		t.Errorf("%v entries were claimed and acknowledged, of %d", claimed, pending)
	}
}

// Two data centers add to a stream while they are cut off from each other, and one of them removes what it has seen. A
// group reads at both. Afterwards both have the same stream, in the order of the ids, and the group has been delivered
// each entry; what arrived late too.
func TestStreamsOfTwoDataCentersMerge(t *testing.T) {
	d := start(t, local.Options{Scope: node.ScopeDataCenter, Level: causal.Snapshot, Cache: true})
	here := oneSession(t, endpoint(t, d, "us-east-1"))
	there := oneSession(t, endpoint(t, d, "ap-southeast-2"))
	ctx := t.Context()
	first := xadd(t, here, "s", "a0")
	xadd(t, here, "s", "a1")
	if err := here.XGroupCreate(ctx, "s", "g", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if got := fieldsOf(readGroup(t, here, "s", "c", 1)); got != "a0" {
		t.Fatalf("the group is delivered %q", got)
	}
	awaitAllRings(t, here)
	awaitStream(t, there, "s", "a0 a1")
	cutAmericaFromAsia(t, d)
	xadd(t, here, "s", "h1")
	xadd(t, there, "s", "t1")
	xadd(t, here, "s", "h2")
	xadd(t, there, "s", "t2")
	if n := here.XDel(ctx, "s", first).Val(); n != 1 {
		t.Errorf("XDEL answers %d", n)
	}
	if got := fieldsOf(readGroup(t, there, "s", "d", 0)); got != "a1 t1 t2" {
		t.Errorf("the group is delivered %q there", got)
	}
	if got := there.XAck(ctx, "s", "g", first).Val(); got != 1 {
		t.Errorf("XACK answers %d", got)
	}
	heal(t, d)
	awaitAllRings(t, here)
	awaitAllRings(t, there)
	for _, c := range []*redis.Conn{here, there} {
		awaitStream(t, c, "s", "a1 h1 t1 h2 t2")
	}
	if got := fieldsOf(readGroup(t, there, "s", "d", 0)); got != "h1 h2" {
		t.Errorf("the group is delivered %q of what arrived late", got)
	}
	awaitAllRings(t, there)
	for until := time.Now().Add(time.Minute); here.XPending(ctx, "s", "g").Val().Count != 5; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("pending: %v", here.XPending(ctx, "s", "g"))
		}
	}
	if got := fieldsOf(readGroup(t, here, "s", "c", 0)); got != "" {
		t.Errorf("the group is delivered %q again", got)
	}
}

// awaitStream waits until a stream has entries with the given fields.
func awaitStream(t *testing.T, c *redis.Conn, key, want string) {
	t.Helper()
	var got []redis.XMessage
	var err error
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if got, err = c.XRange(t.Context(), key, "-", "+").Result(); err == nil && fieldsOf(got) == want {
			return
		}
	}
	t.Fatalf("%s is %s, %v; want %s", key, fieldsOf(got), err, want)
}

// Random commands at four data centers, with cuts: when all have arrived, all have the same streams and groups. No id
// is made twice, no entry comes back that was removed, and the group has been delivered every entry that is left.
func TestStreamsConvergeUnderFaults(t *testing.T) {
	d := start(t, local.Options{Scope: node.ScopeDataCenter, Level: causal.Snapshot, Cache: true})
	ctx := t.Context()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	names := []string{"us-east-1", "eu-west-1", "ap-southeast-2", "sa-east-1"}
	sessions := make([]*redis.Conn, len(names))
	for i, name := range names {
		sessions[i] = oneSession(t, endpoint(t, d, name))
	}
	if err := sessions[0].XGroupCreateMkStream(ctx, "s", "g", "0").Err(); err != nil {
		t.Fatal(err)
	}
	awaitAllRings(t, sessions[0])
	l := &streamLog{added: map[string]bool{}, delivered: map[string]bool{}, removed: map[string]bool{}}
	var all sync.WaitGroup
	for i, c := range sessions {
		all.Go(func() { l.run(t, c, fmt.Sprint("c", i), rand.New(rand.NewPCG(seed, uint64(i)))) })
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
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		texts := make([]string, len(sessions))
		for i, c := range sessions {
			texts[i] = fmt.Sprint(c.Do(ctx, "XINFO", "STREAM", "s", "FULL", "COUNT", 0).Result())
		}
		if len(slices.Compact(slices.Sorted(slices.Values(texts)))) == 1 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("the data centers differ:\n%s", strings.Join(texts, "\n"))
		}
	}
	l.check(t, sessions[0])
}

// streamLog is what clients were told of a stream.
type streamLog struct {
	mu                        sync.Mutex
	added, delivered, removed map[string]bool
}

func (l *streamLog) run(t *testing.T, c *redis.Conn, consumer string, r *rand.Rand) {
	ctx := t.Context()
	var own []string
	for range 120 {
		switch r.IntN(6) {
		case 0, 1, 2:
			id, err := c.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []string{"f", consumer}}).Result()
			if err != nil {
				continue
			}
			l.mu.Lock()
			if l.added[id] {
				t.Errorf("%s was made twice", id)
			}
			l.added[id] = true
			l.mu.Unlock()
			own = append(own, id)
		case 3:
			if len(own) > 0 {
				id := own[r.IntN(len(own))]
				if n, err := c.XDel(ctx, "s", id).Result(); err == nil && n == 1 {
					l.mu.Lock()
					l.removed[id] = true
					l.mu.Unlock()
				}
			}
		default:
			found, _ := c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: consumer,
				Streams: []string{"s", ">"},
				Count:   int64(r.IntN(4)), Block: -1}).Result() // a home may be away
			for _, stream := range found {
				for _, e := range stream.Messages {
					l.mu.Lock()
					l.delivered[e.ID] = true
					l.mu.Unlock()
					if r.IntN(2) == 0 {
						c.XAck(ctx, "s", "g", e.ID)
					}
				}
			}
		}
	}
}

func (l *streamLog) check(t *testing.T, c *redis.Conn) {
	t.Helper()
	for _, e := range readGroup(t, c, "s", "last", 0) {
		l.delivered[e.ID] = true
	}
	entries, err := c.XRange(t.Context(), "s", "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if l.removed[e.ID] {
			t.Errorf("%s was removed, and is there", e.ID)
		}
		delete(l.added, e.ID)
		if pending, err := c.XPendingExt(t.Context(), &redis.XPendingExtArgs{Stream: "s", Group: "g", Start: e.ID, End: e.ID,
			Count: 1}).Result(); !l.delivered[e.ID] && len(pending) == 0 { // a reply may be lost
			t.Errorf("%s was never delivered: %v, %v", e.ID, pending, err)
		}
	}
	for id := range l.added {
		if !l.removed[id] {
			t.Errorf("%s was added, and is lost", id)
		}
	}
	t.Logf("%d entries are left, %d were removed, %d delivered", len(entries), len(l.removed), len(l.delivered))
}
