//go:build unix

package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/causalstore/causalstore/lab/redisserver"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testContext limits the time of a test, so that it fails instead of hanging.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func mustStart(t testing.TB, dir string) *redisserver.Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server in PATH: apt-get install redis-server")
	}
	p, err := redisserver.Start(testContext(t), redisserver.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func optionsOf(p *redisserver.Server) Options { return Options{Socket: p.Socket} }

func mustOpen(t testing.TB, opts Options) *Store {
	t.Helper()
	opts.Logger = slog.New(slog.DiscardHandler)
	s, err := Open(testContext(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// rawClient returns a client that sees the server without the store.
func rawClient(t testing.TB, p *redisserver.Server) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Network: "unix", Addr: p.Socket, Protocol: 2})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func do(t testing.TB, c *goredis.Client, args ...any) any {
	t.Helper()
	reply, err := c.Do(testContext(t), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

func record(n int, data string) causal.Record {
	return causal.Record{Version: causal.Version{HLC: causal.HLC(n), Origin: 1},
		Value: causal.Value{Data: []byte(data)}}
}

func set(key, data string) []storage.Write {
	return []storage.Write{{Key: key, Record: record(1, data)}}
}

func mustApply(t testing.TB, s *Store, writes []storage.Write) {
	t.Helper()
	if err := s.Apply(testContext(t), writes); err != nil {
		t.Fatal(err)
	}
}

func wantData(t testing.TB, s *Store, key, want string) {
	t.Helper()
	if rec, found, err := s.Get(testContext(t), key); err != nil || !found || string(rec.Value.Data) != want {
		t.Errorf("get %q: got %q, %v, %v; want %q", key, rec.Value.Data, found, err, want)
	}
}

// retry calls try until it returns nil, for a bounded time.
func retry(t testing.TB, try func() error) {
	t.Helper()
	ctx := testContext(t)
	for err := try(); err != nil; err = try() {
		if !pause(ctx) {
			t.Fatal(err)
		}
	}
}

// pause waits for the time between two polls. It returns false if ctx has ended.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(5 * time.Millisecond):
		return true
	}
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Place {
		p := mustStart(t, t.TempDir())
		raw := rawClient(t, p)
		return conformance.Place{
			Open:   func(t *testing.T) storage.Store { return mustOpen(t, optionsOf(p)) },
			PutRaw: func(t *testing.T, key string, value []byte) { do(t, raw, "SET", nameOf(key), value) },
		}
	})
}

func TestKeyThatIsNotAStringIsForeign(t *testing.T) {
	p := mustStart(t, t.TempDir())
	s, raw, ctx := mustOpen(t, optionsOf(p)), rawClient(t, p), testContext(t)
	do(t, raw, "RPUSH", "list", "a", "b")
	mustApply(t, s, set("ours", "v"))
	_, found, err := s.Get(ctx, "list")
	var foreign *storage.ForeignError
	if found || !errors.Is(err, storage.ErrForeign) || !errors.As(err, &foreign) || foreign.Key != "list" ||
		foreign.Data != nil {
		t.Errorf("get: found %v, %v", found, err)
	}
	results, err := s.GetMany(ctx, []string{"list", "ours"}, 1<<20)
	if err != nil || !errors.Is(results[0].Err, storage.ErrForeign) || !results[1].Found {
		t.Errorf("get many: got %+v, %v", results, err)
	}
	visited := 0
	err = s.Scan(ctx, func(string, causal.Record) error { visited++; return nil })
	if !errors.Is(err, storage.ErrForeign) || visited != 1 {
		t.Errorf("scan: visited %d, %v", visited, err)
	}
	mustApply(t, s, set("list", "a string now"))
	wantData(t, s, "list", "a string now")
}

func TestKeysAreStoredUnderTheirOwnNames(t *testing.T) {
	p := mustStart(t, t.TempDir())
	s, raw := mustOpen(t, optionsOf(p)), rawClient(t, p)
	mustApply(t, s, append(set("cart:7", "v"), set("\x00odd", "w")...))
	for _, name := range []string{"cart:7", "\x00k\x00odd", fenceKey} {
		if do(t, raw, "EXISTS", name) != int64(1) {
			t.Errorf("the server has no name %q", name)
		}
	}
}

func TestEveryKeyHasItsOwnName(t *testing.T) {
	names := make(map[string]string)
	for _, key := range []string{"", "a", "k", "\x00", "\x00k", "\x00k\x00", "\x00k\x00k", "\x00\x00", fenceKey,
		metaKey, "meta"} {
		name := nameOf(key)
		if other, taken := names[name]; taken || name == fenceKey || name == metaKey {
			t.Errorf("the name %q of key %q is taken by %q or by the store", name, key, other)
		}
		names[name] = key
		if back, ok := keyOf(name); !ok || back != key {
			t.Errorf("%q is stored as %q, which is decoded as %q, %v", key, name, back, ok)
		}
	}
	for _, name := range []string{fenceKey, metaKey, "\x00", "\x00k", "\x00ka", "\x00other"} {
		if key, ok := keyOf(name); ok {
			t.Errorf("%q is decoded as key %q, and no key has that name", name, key)
		}
	}
}

func TestApplyOfManyWritesIsOneTransaction(t *testing.T) {
	p := mustStart(t, t.TempDir())
	s, raw := mustOpen(t, optionsOf(p)), rawClient(t, p)
	var writes []storage.Write
	for i := range 200 {
		writes = append(writes, set(string(rune('a'+i)), "v")...)
	}
	do(t, raw, "CONFIG", "RESETSTAT")
	mustApply(t, s, writes)
	info := make(map[string]string)
	parseInfo(do(t, raw, "INFO", "commandstats").(string), info)
	var execs int
	if _, err := fmt.Sscanf(info["cmdstat_exec"], "calls=%d", &execs); err != nil {
		t.Fatal(err)
	}
	if execs != 1 {
		t.Errorf("one Apply took %d transactions", execs)
	}
}

func TestApplyThatWaitsForItsTurnEndsWithItsContextAndWritesNothing(t *testing.T) {
	p := mustStart(t, t.TempDir())
	s := mustOpen(t, optionsOf(p))
	s.writing <- struct{}{} // as another Apply does
	ctx, cancel := context.WithTimeout(testContext(t), 20*time.Millisecond)
	defer cancel()
	if err := s.Apply(ctx, set("k", "v")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	<-s.writing
	if _, found, err := s.Get(testContext(t), "k"); found || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
	mustApply(t, s, set("k", "w"))
	wantData(t, s, "k", "w")
}
