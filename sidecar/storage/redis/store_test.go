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

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testContext bounds a test, so that it fails rather than hangs.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func mustSpawn(t testing.TB, dir string) *Process {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server in PATH: apt-get install redis-server")
	}
	p, err := Spawn(testContext(t), SpawnOptions{Dir: dir})
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

// rawClient is a client that knows nothing of envelopes.
func rawClient(t testing.TB, p *Process) *goredis.Client {
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
	return causal.Record{Version: causal.Version{HLC: causal.HLC(n), Origin: 1}, Value: causal.Value{Data: []byte(data)}}
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

// eventually calls try until it returns nil.
func eventually(t testing.TB, try func() error) {
	t.Helper()
	ctx := testContext(t)
	for err := try(); err != nil; err = try() {
		if !pause(ctx) {
			t.Fatal(err)
		}
	}
}

func TestTheEngineKeepsTheContract(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Place {
		p := mustSpawn(t, t.TempDir())
		raw := rawClient(t, p)
		return conformance.Place{
			Open:   func(t *testing.T) storage.Store { return mustOpen(t, p.Options()) },
			PutRaw: func(t *testing.T, key string, value []byte) { do(t, raw, "SET", nameOf(key), value) },
		}
	})
}

func TestAKeyThatIsNotAStringIsForeign(t *testing.T) {
	p := mustSpawn(t, t.TempDir())
	s, raw, ctx := mustOpen(t, p.Options()), rawClient(t, p), testContext(t)
	do(t, raw, "RPUSH", "list", "a", "b")
	mustApply(t, s, set("ours", "v"))
	_, found, err := s.Get(ctx, "list")
	var foreign *storage.ForeignError
	if found || !errors.Is(err, storage.ErrForeign) || !errors.As(err, &foreign) || foreign.Key != "list" || foreign.Data != nil {
		t.Errorf("get: found %v, %v", found, err)
	}
	results, err := s.GetMany(ctx, []string{"list", "ours"})
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

func TestNamesInTheServerAreTheKeysThemselves(t *testing.T) {
	p := mustSpawn(t, t.TempDir())
	s, raw := mustOpen(t, p.Options()), rawClient(t, p)
	mustApply(t, s, append(set("cart:7", "v"), set("\x00odd", "w")...))
	for _, name := range []string{"cart:7", "\x00k\x00odd", fenceKey} {
		if do(t, raw, "EXISTS", name) != int64(1) {
			t.Errorf("there is no name %q in the server", name)
		}
	}
}

func TestEveryKeyHasANameOfItsOwn(t *testing.T) {
	names := make(map[string]string)
	for _, key := range []string{"", "a", "k", "\x00", "\x00k", "\x00k\x00", "\x00k\x00k", "\x00\x00", fenceKey, metaKey, "meta"} {
		name := nameOf(key)
		if other, taken := names[name]; taken || name == fenceKey || name == metaKey {
			t.Errorf("the name %q of key %q is taken by %q or by the store", name, key, other)
		}
		names[name] = key
		if back, ok := keyOf(name); !ok || back != key {
			t.Errorf("%q is stored as %q, which is read as %q, %v", key, name, back, ok)
		}
	}
	for _, name := range []string{fenceKey, metaKey, "\x00", "\x00k", "\x00ka", "\x00other"} {
		if key, ok := keyOf(name); ok {
			t.Errorf("%q is read as key %q, and no key is stored there", name, key)
		}
	}
}

func TestOverlappingAppliesShareATransaction(t *testing.T) {
	p := mustSpawn(t, t.TempDir())
	s, raw := mustOpen(t, p.Options()), rawClient(t, p)
	const n = 200
	do(t, raw, "CONFIG", "RESETSTAT")
	do(t, raw, "CLIENT", "PAUSE", "200", "WRITE") // so that the others arrive while the first is under way
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- s.Apply(testContext(t), set(string(rune('a'+i)), "v")) }()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	info := make(map[string]string)
	parseInfo(do(t, raw, "INFO", "commandstats").(string), info)
	var execs int
	if _, err := fmt.Sscanf(info["cmdstat_exec"], "calls=%d", &execs); err != nil {
		t.Fatal(err)
	}
	if execs > n/4 {
		t.Errorf("%d applies took %d transactions", n, execs)
	}
}
