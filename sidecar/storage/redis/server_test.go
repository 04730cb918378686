//go:build unix

package redis

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/ports"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

func TestUnsafeServerIsRefusedWithTheRemedy(t *testing.T) {
	for _, c := range []struct {
		name   string
		change [][]any
		want   []string
	}{
		{"no log", [][]any{{"CONFIG", "SET", "appendonly", "no"}},
			[]string{`appendonly is "no"`, "CONFIG SET appendonly yes"}},
		{"log not synced", [][]any{{"CONFIG", "SET", "appendfsync", "everysec"}},
			[]string{`appendfsync is "everysec"`, "CONFIG SET appendfsync always"}},
		{"not synced during rewrite", [][]any{{"CONFIG", "SET", "no-appendfsync-on-rewrite", "yes"}},
			[]string{"CONFIG SET no-appendfsync-on-rewrite no"}},
		{"evicts", [][]any{{"CONFIG", "SET", "maxmemory", "100mb"},
			{"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"}},
			[]string{`maxmemory-policy is "allkeys-lru"`, "CONFIG SET maxmemory-policy noeviction"}},
		{"no long values", [][]any{{"CONFIG", "SET", "proto-max-bulk-len", "16mb"}},
			[]string{"proto-max-bulk-len is 16777216", "CONFIG SET proto-max-bulk-len 512mb"}},
		{"several", [][]any{{"CONFIG", "SET", "appendonly", "no"}, {"CONFIG", "SET", "appendfsync", "no"}},
			[]string{"appendonly", "appendfsync"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustStart(t, t.TempDir())
			raw := rawClient(t, p)
			for _, args := range c.change {
				do(t, raw, args...)
			}
			_, err := Open(testContext(t), optionsOf(p))
			for _, want := range append(c.want, p.Socket, "AllowUnsafe") {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v; want %q in it", err, want)
				}
			}
			opts := optionsOf(p)
			opts.AllowUnsafe = true
			s := mustOpen(t, opts)
			mustApply(t, s, set("k", "v"))
			wantData(t, s, "k", "v")
		})
	}
}

func TestEvictionPolicyWithoutAMemoryLimitIsSafe(t *testing.T) {
	p := mustStart(t, t.TempDir())
	do(t, rawClient(t, p), "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	mustOpen(t, optionsOf(p))
}

func TestServerWhoseSettingsCannotBeReadIsRefusedWithTheRemedy(t *testing.T) {
	p := mustStart(t, t.TempDir())
	raw := rawClient(t, p)
	do(t, raw, "ACL", "SETUSER", "mm", "on", ">secret", "~*", "+@read", "+@write", "+@transaction", "+@connection",
		"+info", "+wait")
	opts := optionsOf(p)
	opts.Username, opts.Password = "mm", "secret"
	if _, err := Open(testContext(t), opts); err == nil ||
		!strings.Contains(err.Error(), "ACL SETUSER <user> +config|get") {
		t.Errorf("got %v", err)
	}
	// With it, the permissions that Options lists are sufficient for everything.
	do(t, raw, "ACL", "SETUSER", "mm", "+config|get")
	s := mustOpen(t, opts)
	mustApply(t, s, set("k", "v"))
	wantData(t, s, "k", "v")
	if n, err := s.Len(testContext(t)); n != 1 || err != nil {
		t.Errorf("len: %d, %v", n, err)
	}
	if err := s.Scan(testContext(t), func(string, causal.Record) error { return nil }); err != nil {
		t.Error(err)
	}
	opts.Password = "wrong"
	if _, err := Open(testContext(t), opts); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("with a wrong password: got %v", err)
	}
	do(t, raw, "ACL", "SETUSER", "mm", "-info")
	opts.Password = "secret"
	if _, err := Open(testContext(t), opts); err == nil || !strings.Contains(err.Error(), "+info") {
		t.Errorf("without INFO: got %v", err)
	}
}

func TestCheckUsableRefusesUnsupportedServers(t *testing.T) {
	good := map[string]string{"run_id": "x", "redis_version": "7.0.15", "redis_mode": "standalone", "role": "master",
		"loading": "0"}
	for _, c := range []struct{ field, value, want string }{
		{"redis_version", "6.2.0", ""},
		{"redis_version", "8.0", ""},
		{"redis_version", "10.1.2", ""},
		{"redis_version", "6.0.16", "at least 6.2"},
		{"redis_version", "5.9.9", "at least 6.2"},
		{"redis_version", "", "at least 6.2"},
		{"redis_mode", "cluster", "cluster-enabled no"},
		{"role", "slave", "primary"},
		{"loading", "1", "loading"},
		{"run_id", "", "run_id"},
	} {
		info := make(map[string]string)
		for field, value := range good {
			info[field] = value
		}
		info[c.field] = c.value
		err := server{runID: info["run_id"], info: info}.checkUsable()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: got %v, want %q", c.field, c.value, err, c.want)
		}
	}
}

func TestOpenRefusesInvalidOptions(t *testing.T) {
	for _, opts := range []Options{{}, {Addr: "a:1", Socket: "/s"}, {Addr: "a:1", DB: -1},
		{Addr: "a:1", WaitReplicas: -1}} {
		if _, err := Open(testContext(t), opts); err == nil {
			t.Errorf("%+v was accepted", opts)
		}
	}
}

func TestErrorForAMissingServerNamesIt(t *testing.T) {
	if _, err := Open(testContext(t), Options{Socket: "/nonexistent/redis.sock"}); err == nil ||
		!strings.Contains(err.Error(), "/nonexistent/redis.sock") {
		t.Errorf("got %v", err)
	}
}

func TestWritesWaitForReplicas(t *testing.T) {
	primary, replica := mustStart(t, t.TempDir()), mustStart(t, t.TempDir())
	rawPrimary, rawReplica := rawClient(t, primary), rawClient(t, replica)
	opts := optionsOf(primary)
	opts.WaitReplicas, opts.WaitTimeout, opts.Logger = 1, 50*time.Millisecond, slog.New(slog.DiscardHandler)
	if _, err := Open(testContext(t), opts); err == nil || !strings.Contains(err.Error(), "only 0 of the 1 replicas") {
		t.Fatalf("without a replica: got %v", err)
	}
	port := netip.MustParseAddrPort(ports.ForTest(t)).Port()
	do(t, rawPrimary, "CONFIG", "SET", "port", port)
	do(t, rawReplica, "REPLICAOF", "127.0.0.1", port)
	var s *Store
	retry(t, func() (err error) { s, err = Open(testContext(t), opts); return err })
	defer s.Close()
	retry(t, func() error { return s.Apply(testContext(t), set("k", "v")) })
	if data := do(t, rawReplica, "GET", "k").(string); !strings.HasPrefix(data[len(data)-9:], "v") {
		// and 8 bytes of checksum
		t.Errorf("the replica has %q", data)
	}
	if _, err := Open(testContext(t), optionsOf(replica)); err == nil || !strings.Contains(err.Error(), "replica") {
		t.Errorf("opening the replica: got %v", err)
	}
	if err := replica.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(testContext(t), set("k", "w")); err == nil ||
		!strings.Contains(err.Error(), "only 0 of the 1 replicas") {
		t.Errorf("with the replica gone: got %v", err)
	}
	if errors.Is(s.Ping(testContext(t)), storage.ErrRestarted) {
		t.Error("a missing replica was reported as a restart")
	}
}
