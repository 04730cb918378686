package browser

import (
	"bufio"
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/console/internal/npm"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

var rewrite = flag.Bool("rewrite", false, "put the screenshots into the documentation")

// program returns the path of a program, or skips the test.
func program(t *testing.T, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed (Debian: apt-get install %s)", name, debian)
	}
	return path
}

func TestThePageInABrowser(t *testing.T) {
	chromium := program(t, "chromium", "chromium")
	runtime, script := install(t, "page.mjs")
	d, err := local.Start(t.Context(), local.Options{Topology: topology.Default(), Engine: "embedded",
		Scope: node.ScopePod, Cache: true, WAN: true,
		Host: "127.0.0.1", DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(d.Admin())
	defer func() {
		server.CloseClientConnections()
		server.Close()
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()

	var gone atomic.Bool
	var operator *httptest.Server
	pages := console.NewOnDemand(readOnly{}, time.Second, time.Minute)
	operator = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/go-away" {
			gone.Store(true)
			go operator.CloseClientConnections()
		}
		if gone.Load() {
			http.Error(w, "gone", http.StatusServiceUnavailable)
			return
		}
		pages.ServeHTTP(w, r)
	}))
	defer func() {
		operator.CloseClientConnections()
		operator.Close()
	}()

	shots := t.TempDir()
	if *rewrite {
		if shots, err = filepath.Abs("../../docs/images"); err != nil {
			t.Fatal(err)
		}
	}
	run(t, runtime, script, server.URL, chromium, shots, operator.URL)
}

func TestWhatThePageConcludes(t *testing.T) {
	source, err := filepath.Abs("../web/src/facts.ts")
	if err != nil {
		t.Fatal(err)
	}
	runtime, script := install(t, "facts.mjs")
	run(t, runtime, script, source)
}

// install returns the path of node, and that of a script beside the packages that it uses, or skips the test.
func install(t *testing.T, name string) (runtime, script string) {
	t.Helper()
	program(t, "npm", "npm")
	runtime = program(t, "node", "nodejs")
	modules, err := npm.Install("../web")
	if err != nil {
		t.Skipf("the packages of the test cannot be installed: %v", err)
	}
	folder := t.TempDir()
	script = filepath.Join(folder, name)
	if err := npm.CopyFile(script, filepath.Join("../web/test", name)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return runtime, script
}

// run runs a script and makes a test of each of its checks.
func run(t *testing.T, runtime string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, runtime, args...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	report(t, bufio.NewScanner(out))
	if err := c.Wait(); err != nil && !t.Failed() {
		t.Errorf("the script: %v", err)
	}
}

// report makes a test of each line of the script's output.
func report(t *testing.T, lines *bufio.Scanner) {
	checks := 0
	for lines.Scan() {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "ok "); ok {
			checks++
			t.Run(name, func(*testing.T) {})
		} else if failure, ok := strings.CutPrefix(line, "not ok "); ok {
			checks++
			name, reason, _ := strings.Cut(failure, ": ")
			t.Run(name, func(t *testing.T) { t.Error(reason) })
		} else {
			t.Log(line)
		}
	}
	if checks == 0 {
		t.Error("the script has checked nothing")
	}
}
