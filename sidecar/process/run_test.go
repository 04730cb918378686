package process

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/redis"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// freeAddr returns an address that nobody listened on a moment ago.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// run starts a part in this process; stop ends it as SIGTERM does.
func run(t *testing.T, text string, part topology.Part, change func(*Config)) (httpAddr string, ended <-chan error, stop func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	httpAddr = freeAddr(t)
	source := Source{Path: path, Override: func(c *Config) {
		c.Listen = Listen{GRPC: "127.0.0.1:0", HTTP: httpAddr, Redis: "127.0.0.1:0"}
		change(c)
	}}
	set, err := source.Load(part)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out := make(chan error, 1)
	go func() {
		out <- Run(ctx, Options{Settings: set, Source: source, Logger: slog.New(slog.DiscardHandler), Level: &slog.LevelVar{}, DrainTimeout: time.Second})
	}()
	return httpAddr, out, cancel
}

func fetch(addr, path string) (status int, body string) {
	resp, err := http.Get("http://" + addr + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

func TestASidecarIsAliveButNotReadyBeforeItHasHeardAnything(t *testing.T) {
	addr, ended, stop := run(t, good, topology.Sidecar, func(*Config) {})
	await(t, "it to run", func() bool { _, body := fetch(addr, "/readyz"); return strings.Contains(body, string(phaseRunning)) })
	status, body := fetch(addr, "/readyz")
	var r Readiness
	if err := json.Unmarshal([]byte(body), &r); err != nil || status != http.StatusServiceUnavailable || r.Ready || !strings.Contains(r.Reason, "vectors") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if status, _ := fetch(addr, "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d", status)
	}
	if _, body := fetch(addr, "/metrics"); !strings.Contains(body, `causalstore_ready{data_center="eu",ring="europe"} 0`) {
		t.Errorf("/metrics: %s", body)
	}
	if status, _ := fetch(addr, "/debug/pprof/"); status != http.StatusNotFound {
		t.Errorf("pprof is served though it was not asked for: %d", status)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestASecondCoordinatorOnTheSameLogEndsWithAClearError(t *testing.T) {
	dir := t.TempDir()
	addr, ended, stop := run(t, good, topology.Coordinator, func(c *Config) { c.DataDir = dir })
	await(t, "the first to be ready", func() bool { status, _ := fetch(addr, "/readyz"); return status == http.StatusOK })
	_, second, _ := run(t, good, topology.Coordinator, func(c *Config) { c.DataDir = dir })
	if err := <-second; err == nil || !strings.Contains(err.Error(), "one coordinator at a time") {
		t.Errorf("the second ended with %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the first ended with %v", err)
	}
}

func TestAMiddlemanWhoseStorageIsTakenOverEndsWithAnError(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server in PATH: apt-get install redis-server")
	}
	server, err := redis.Spawn(t.Context(), redis.SpawnOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	addr, ended, _ := run(t, good, topology.Middleman, func(c *Config) { c.Storage.Redis = RedisStorage{Socket: server.Socket} })
	await(t, "it to be ready", func() bool { status, _ := fetch(addr, "/readyz"); return status == http.StatusOK })
	usurper, err := redis.Open(t.Context(), server.Options())
	if err != nil {
		t.Fatal(err)
	}
	defer usurper.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, storage.ErrFenced) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it goes on as if nothing had happened")
	}
}

func TestAMiddlemanThatWaitsForItsStorageSaysSoAndCanBeStopped(t *testing.T) {
	addr, ended, stop := run(t, good, topology.Middleman, func(c *Config) { c.Storage.Redis = RedisStorage{Socket: "/nowhere/redis.sock"} })
	await(t, "the reason", func() bool { _, body := fetch(addr, "/readyz"); return strings.Contains(body, "/nowhere/redis.sock") })
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}
