package local_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

// What a client has written is listed and counted at another sidecar of the data center as soon as it is acknowledged,
// and a scan continues there.
func TestKeysAreListedAtTheOtherSidecarAtOnce(t *testing.T) {
	d := startExact(t, 2)
	var clients []*redis.Client
	for _, addr := range d.Endpoints()[0].Sidecars {
		c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 1})
		defer c.Close()
		clients = append(clients, c)
	}
	var want []string
	for i := range 25 {
		key := fmt.Sprintf("k%02d", i)
		want = append(want, key)
		if err := clients[0].Set(t.Context(), key, "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if n, err := clients[1].DBSize(t.Context()).Result(); err != nil || n != int64(len(want)) {
			t.Errorf("after %d writes elsewhere DBSIZE is %d, %v", len(want), n, err)
		}
		if all, err := clients[1].Keys(t.Context(), "*").Result(); err != nil || len(all) != len(want) {
			t.Errorf("after %d writes elsewhere KEYS returns %q, %v", len(want), all, err)
		}
	}
	var named []string
	for cursor, calls := uint64(0), 0; ; calls++ {
		keys, next, err := clients[calls%2].Scan(t.Context(), cursor, "", 4).Result()
		if err != nil {
			t.Fatal(err)
		}
		named = append(named, keys...)
		if cursor = next; cursor == 0 {
			break
		}
	}
	slices.Sort(named)
	if named = slices.Compact(named); !slices.Equal(named, want) {
		t.Errorf("SCAN at two sidecars in turns: %q", named)
	}
}

// The level of a connection decides whether its reads ask the home.
func TestAConnectionReadsPastTheHomeAtAnotherLevel(t *testing.T) {
	d := startExact(t, 2)
	addr := d.Endpoints()[0].Sidecars
	writer := redis.NewClient(&redis.Options{Addr: addr[0], MaxRetries: -1})
	defer writer.Close()
	reader := redis.NewClient(&redis.Options{Addr: addr[1], MaxRetries: -1, PoolSize: 1})
	defer reader.Close()
	read := func(level string) (source string) {
		t.Helper()
		if err := reader.Do(t.Context(), "CAUSAL", "LEVEL", level).Err(); err != nil {
			t.Fatal(err)
		}
		if is, err := reader.Do(t.Context(), "CAUSAL", "LEVEL").Text(); is != level || err != nil {
			t.Errorf("the level is %q, %v", is, err)
		}
		if err := writer.Set(t.Context(), "x", level, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := reader.Get(t.Context(), "x").Result(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		last, err := reader.Do(t.Context(), "CAUSAL", "LAST").StringSlice()
		if err != nil {
			t.Fatal(err)
		}
		return last[1]
	}
	if source := read("snapshot"); source == "home" {
		t.Error("at level Snapshot the home was asked")
	}
	if source := read("local"); source != "home" {
		t.Errorf("at level Local a new write comes from %q", source)
	}
	if err := reader.Do(t.Context(), "CAUSAL", "LEVEL", "newest").Err(); err == nil {
		t.Error("an unknown level is taken")
	}
}
