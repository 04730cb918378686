package processes_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Clients of both sidecars of a count in a hash, add members to a set and a sorted set, and take members out of another
// set, while the coordinators of a, which are the homes of the keys, are killed one after the other. No count is
// answered twice, nobody takes what another client has taken, and whatever was acknowledged is there.
func TestCollectionsAreExactWhileTheirHomesAreKilled(t *testing.T) {
	d := startHomes(t)
	l := d.startCollections()
	l.killHomes(t, d, 150)
	l.stop()
	l.check(t, d)
}

// collectionLoad is what clients have been told.
type collectionLoad struct {
	homeLoad
	counts        map[int64]int
	unknownCounts int
	acknowledged  map[string]bool // members that were added
	taken         map[string]int
	unknownTakes  int
}

const itemsToTake = 400

func (d *deployment) startCollections() *collectionLoad {
	l := &collectionLoad{counts: map[int64]int{}, acknowledged: map[string]bool{}, taken: map[string]int{}}
	l.begin(d)
	first := d.clientOf("a-sidecar")
	for n := range itemsToTake {
		eventually(d.t, "a member to be added", func() error {
			return first.SAdd(l.context, "items", n).Err()
		})
	}
	for n := range 6 {
		l.run(d, n, func(c *redis.Client, i int) bool {
			l.step(c, fmt.Sprintf("%d:%d", n, i))
			return true
		})
	}
	return l
}

func (l *collectionLoad) step(c *redis.Client, name string) {
	n, err := c.HIncrBy(l.context, "hash", "n", 1).Result()
	l.note(err, func() { l.counts[n]++ }, func() { l.unknownCounts++ })
	for key, err := range map[string]error{
		"set":  c.SAdd(l.context, "set", name).Err(),
		"zset": c.ZAdd(l.context, "zset", redis.Z{Score: 1, Member: name}).Err(),
		"hash": c.HSet(l.context, "hash", name, name).Err(),
	} {
		l.note(err, func() { l.acknowledged[key+" "+name] = true }, func() {})
	}
	item, err := c.SPop(l.context, "items").Result()
	if !errors.Is(err, redis.Nil) {
		l.note(err, func() { l.taken[item]++ }, func() { l.unknownTakes++ })
	}
}

func (l *collectionLoad) check(t *testing.T, d *deployment) {
	t.Helper()
	c := d.clientOf("a-sidecar-2")
	ctx := t.Context()
	for n, times := range l.counts {
		if times > 1 {
			t.Errorf("the count %d was answered %d times", n, times)
		}
	}
	for item, times := range l.taken {
		if times > 1 {
			t.Errorf("%s was taken %d times", item, times)
		}
	}
	var hash map[string]string
	var set, zset, left []string
	eventually(t, "the collections to be read", func() (err error) {
		var errs [4]error
		hash, errs[0] = c.HGetAll(ctx, "hash").Result()
		set, errs[1] = c.SMembers(ctx, "set").Result()
		zset, errs[2] = c.ZRange(ctx, "zset", 0, -1).Result()
		left, errs[3] = c.SMembers(ctx, "items").Result()
		return errors.Join(errs[:]...)
	})
	var sum int
	if _, err := fmt.Sscan(hash["n"], &sum); err != nil || sum < len(l.counts) || sum > len(l.counts)+l.unknownCounts {
		t.Errorf("the hash has counted to %s; %d counts were answered, and the outcome of %d is unknown", hash["n"],
			len(l.counts), l.unknownCounts)
	}
	for what := range l.acknowledged {
		key, name, _ := strings.Cut(what, " ")
		_, isField := hash[name]
		if !map[string]bool{"hash": isField, "set": slices.Contains(set, name),
			"zset": slices.Contains(zset, name)}[key] {
			t.Errorf("%s of %s was acknowledged, and is not there", name, key)
		}
	}
	for _, item := range left {
		if l.taken[item] > 0 {
			t.Errorf("%s was taken, and is still there", item)
		}
	}
	if n := len(l.taken) + len(left); n > itemsToTake || n+l.unknownTakes < itemsToTake {
		t.Errorf("%d items were taken, %d are left, and the outcome of %d is unknown; there were %d", len(l.taken),
			len(left), l.unknownTakes, itemsToTake)
	}
	t.Logf("%d commands were answered; the outcome of %d counts and of %d takes is unknown", l.answered.Load(),
		l.unknownCounts, l.unknownTakes)
}
