package process

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/ports"
	"github.com/causalstore/causalstore/lab/redisserver"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/redis"
	"github.com/causalstore/causalstore/topology"
)

// run runs a part in this process; stop stops it as SIGTERM does.
func run(t *testing.T, text string, part topology.Part, change func(*contract.Config)) (httpAddr string,
	ended <-chan error, stop func()) {
	t.Helper()
	return runLogged(t, text, part, io.Discard, change)
}

func runLogged(t *testing.T, text string, part topology.Part, log io.Writer,
	change func(*contract.Config)) (httpAddr string, ended <-chan error, stop func()) {
	t.Helper()
	return runWith(t, text, part, Options{Logger: slog.New(slog.NewTextHandler(log, nil))}, change)
}

func runWith(t *testing.T, text string, part topology.Part, o Options, change func(*contract.Config)) (httpAddr string,
	ended <-chan error, stop func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	httpAddr = ports.ForTest(t)
	dataDir := t.TempDir()
	source := Source{Path: path, Override: func(c *contract.Config) {
		c.Listen = contract.Listen{GRPC: "127.0.0.1:0", HTTP: httpAddr, Redis: "127.0.0.1:0"}
		if c.DataDir != "" {
			c.DataDir = dataDir
		}
		change(c)
	}}
	set, err := source.Load(part)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out := make(chan error, 1)
	go func() {
		o.Settings, o.Source, o.Level, o.DrainTimeout = set, source, &slog.LevelVar{}, time.Second
		out <- Run(ctx, o)
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

// fetchUnanswered reports whether a part says that its disk is empty, and whose answer it waits for.
func fetchUnanswered(addr, disk string) bool {
	status, body := fetch(addr, "/readyz")
	return status == http.StatusServiceUnavailable && strings.Contains(body, "its "+disk+" is empty") &&
		strings.Contains(body, "waiting for the answer of")
}

func TestASidecarIsAliveButNotReadyBeforeItReceivesVectors(t *testing.T) {
	addr, ended, stop := run(t, good, topology.Sidecar, func(*contract.Config) {})
	await(t, "the sidecar to run", func() bool {
		_, body := fetch(addr, "/readyz")
		return strings.Contains(body, string(contract.PhaseRunning))
	})
	status, body := fetch(addr, "/readyz")
	var r contract.Readiness
	if err := json.Unmarshal([]byte(body), &r); err != nil || status != http.StatusServiceUnavailable || r.Ready ||
		!strings.Contains(r.Reason, "vectors") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if status, _ := fetch(addr, "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d", status)
	}
	if _, body := fetch(addr, "/metrics"); !strings.Contains(body,
		`causalstore_ready{data_center="eu",ring="europe"} 0`) {
		t.Errorf("/metrics: %s", body)
	}
	if status, _ := fetch(addr, "/debug/pprof/"); status != http.StatusNotFound {
		t.Errorf("pprof is served although it is not enabled: %d", status)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestASecondCoordinatorOnTheSameLogFails(t *testing.T) {
	dir := t.TempDir()
	addr, ended, stop := run(t, good, topology.Coordinator, func(c *contract.Config) { c.DataDir = dir })
	await(t, "the first coordinator to run, and to say what it waits for", func() bool {
		return fetchUnanswered(addr, "log")
	})
	_, second, _ := run(t, good, topology.Coordinator, func(c *contract.Config) { c.DataDir = dir })
	if err := <-second; err == nil || !strings.Contains(err.Error(), "one coordinator at a time") {
		t.Errorf("the second ended with %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the first ended with %v", err)
	}
}

func TestAMiddlemanFailsWhenItsStorageIsTakenOver(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server in PATH: apt-get install redis-server")
	}
	server, err := redisserver.Start(t.Context(), redisserver.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	addr, ended, _ := run(t, good, topology.Middleman, func(c *contract.Config) {
		c.Storage.Redis = contract.RedisStorage{Socket: server.Socket}
	})
	await(t, "the middleman to run, and to say what it waits for", func() bool {
		return fetchUnanswered(addr, "storage")
	})
	usurper, err := redis.Open(t.Context(), redis.Options{Socket: server.Socket})
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
		t.Error("it still runs")
	}
}

func TestAMiddlemanThatWaitsForItsStorageReportsItAndStops(t *testing.T) {
	addr, ended, stop := run(t, good, topology.Middleman, func(c *contract.Config) {
		c.Storage.Redis = contract.RedisStorage{Socket: "/nowhere/redis.sock"}
	})
	await(t, "the reason why it waits", func() bool {
		_, body := fetch(addr, "/readyz")
		return strings.Contains(body, "/nowhere/redis.sock")
	})
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}
