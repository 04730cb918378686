package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

// twoRegions are a ring each, an ocean apart.
const twoRegions = `{epoch: 1, dataCenters: [{name: eu-west-1}, {name: us-east-1}],
	rings: [{name: europe, dataCenters: [eu-west-1]}, {name: america, dataCenters: [us-east-1]}],
	roundTripMs: {eu-west-1: {us-east-1: 70}}}`

const (
	pairsShown  = 100 // SET at one sidecar, then GET at the other
	counters    = 4   // clients of each sidecar
	countsShown = 25  // INCR of each
)

// oneRedis shows, in a deployment of its own, that with scope DataCenter the sidecars of a data center are as one
// Redis.
func (t *tour) oneRedis(ctx context.Context) (err error) {
	topo, err := topology.Parse([]byte(twoRegions))
	if err != nil {
		return err
	}
	d, err := local.Start(ctx, local.Options{Topology: topo, Engine: "embedded", Scope: node.ScopeDataCenter,
		Level: causal.Snapshot, Cache: true, WAN: true, Host: "127.0.0.1", Sidecars: 2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	var clients []*redis.Client
	for _, addr := range d.Endpoints()[0].Sidecars {
		c := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: patience, MaxRetries: -1})
		defer c.Close()
		clients = append(clients, c)
	}
	t.say(ctx,
		`So far each data center had one sidecar. This is another deployment, with two in each, as two pods
		have, and with session.scope: DataCenter. A and B are the sidecars of eu-west-1.`)
	return errors.Join(t.readAtOnce(ctx, clients[0], clients[1]), t.countTogether(ctx, clients))
}

// readAtOnce writes at one sidecar and reads at another one, again and again.
func (t *tour) readAtOnce(ctx context.Context, a, b *redis.Client) error {
	old, from := 0, map[string]int{}
	conn := b.Conn() // CAUSAL LAST is about the last command of a connection
	defer conn.Close()
	for i := range pairsShown {
		if err := a.Set(ctx, "stock", i, 0).Err(); err != nil {
			return fmt.Errorf("SET at A: %w", err)
		}
		n, err := conn.Get(ctx, "stock").Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("GET at B: %w", err)
		}
		if err != nil || n != i {
			old++
		}
		last, err := conn.Do(ctx, "CAUSAL", "LAST").StringSlice()
		if err != nil || len(last) != 3 {
			return fmt.Errorf("CAUSAL LAST at B: %q, %w", last, err)
		}
		from[last[1]]++
	}
	t.row(ctx, "A> SET stock 0   B> GET stock   A> SET stock 1   B> GET stock   ...")
	t.verify(ctx, old == 0 && from["home"] > 0,
		fmt.Sprintf("%d times, B read what A had just written. %d of the answers came from the home of the key, the "+
			"coordinator that has taken the write: CAUSAL LAST says so.", pairsShown, from["home"]),
		fmt.Sprintf("%d of %d reads at B returned something old; they came from %v.", old, pairsShown, from))
	return nil
}

// countTogether lets clients of both sidecars count in one key at the same time.
func (t *tour) countTogether(ctx context.Context, sidecars []*redis.Client) error {
	var mu sync.Mutex
	var answers []int64
	var errs []error
	var all sync.WaitGroup
	for i := range counters * len(sidecars) {
		all.Go(func() {
			for range countsShown {
				n, err := sidecars[i%len(sidecars)].Incr(ctx, "sold").Result()
				mu.Lock()
				answers, errs = append(answers, n), append(errs, err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("INCR: %w", err)
	}
	total, err := sidecars[1].Get(ctx, "sold").Int()
	if err != nil {
		return fmt.Errorf("GET sold: %w", err)
	}
	increments := len(answers)
	slices.Sort(answers)
	different := len(slices.Compact(answers))
	t.row(ctx, "A> INCR sold   B> INCR sold   by %d clients at the same time", counters*len(sidecars))
	t.verify(ctx, total == increments && different == increments,
		fmt.Sprintf("%d increments, and the counter is %d. Each answer was another number.", increments, total),
		fmt.Sprintf("%d increments, but the counter is %d, with %d different answers.", increments, total, different))
	t.say(ctx, `Between regions nothing has changed: of two concurrent writes one wins, so a counter that both regions
		increment loses some.`)
	return nil
}
