//go:build unix

package node

import (
	"os/exec"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/redisserver"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/redis"
)

// redisBeside gives each member a Redis server of its own, which restart starts again on its data.
type redisBeside struct {
	t       testing.TB
	dirs    []string
	servers []*redisserver.Server
}

func newRedisBeside(t testing.TB, n int) *redisBeside {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server in PATH: apt-get install redis-server")
	}
	b := &redisBeside{t: t, dirs: make([]string, n), servers: make([]*redisserver.Server, n)}
	t.Cleanup(func() {
		for i := range b.servers {
			b.kill(i)
		}
	})
	for i := range n {
		b.dirs[i] = t.TempDir()
		b.run(i)
	}
	return b
}

func (b *redisBeside) run(i int) {
	b.t.Helper()
	s, err := redisserver.Start(b.t.Context(), redisserver.Options{Dir: b.dirs[i]})
	if err != nil {
		b.t.Fatal(err)
	}
	b.servers[i] = s
}

func (b *redisBeside) kill(i int) {
	if err := b.servers[i].Kill(); err != nil {
		b.t.Error(err)
	}
}

func (b *redisBeside) of(i int) beside {
	return beside{disk: vfs.NewMem(), open: func() (storage.Store, error) {
		s, err := redis.Open(b.t.Context(), redis.Options{Socket: b.servers[i].Socket, Logger: discard})
		if err != nil {
			return nil, err
		}
		return s, nil
	}}
}

func TestAShardOnRedisSurvivesTheRestartOfAnyServer(t *testing.T) {
	b := newRedisBeside(t, 3)
	r := newShardRig(t, 3, b.of)
	r.putAll(300)
	for range 2 {
		p := r.primary()
		for _, i := range []int{(p + 1) % 3, p} { // beside a follower, and beside the primary
			r.put(100)
			b.kill(i)
			if i == p {
				killed := time.Now()
				r.awaitAnother(p)
				t.Logf("another member serves %v after the server of the primary was killed", time.Since(killed))
			}
			r.put(100)
			r.awaitDrained() // the others go on
			b.run(i)
			r.awaitWhole()
			r.put(100)
			r.awaitDrained()
			r.awaitEqual(i)
		}
	}
	for i := range r.running {
		r.awaitEqual(i)
	}
}

func TestAMemberWhoseRedisWasEmptiedIsCopied(t *testing.T) {
	b := newRedisBeside(t, 3)
	r := newShardRig(t, 3, b.of)
	r.putAll(2000)
	for _, i := range []int{r.primary(), (r.primary() + 1) % 3} {
		client := goredis.NewClient(&goredis.Options{Network: "unix", Addr: b.servers[i].Socket, Protocol: 2})
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		r.put(100)
		r.await("the member to stop", func() bool { return r.failure(i) != nil })
		r.start(i, r.crash(i))
		r.put(100)
		r.awaitDrained()
		r.awaitWhole()
		for j := range r.running {
			r.awaitEqual(j)
		}
	}
}
