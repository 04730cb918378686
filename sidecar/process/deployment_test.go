package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/sidecar/command"
	"github.com/causalstore/causalstore/sidecar/process"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// runAsProgram makes the test binary be causalstore: so the processes of the tests are built with what the tests are.
const runAsProgram = "CAUSALSTORE_TEST_RUN_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(runAsProgram) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := command.Execute(ctx)
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// patience bounds every wait. It is reached only when something is broken.
const patience = 30 * time.Second

func eventually(t *testing.T, what string, cond func() error) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(patience)
	for {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s: %v", what, err)
		}
		<-tick.C
	}
}

// ports hands out free ports below those that the system gives to outgoing connections, which would take them away.
type ports struct{ next int }

func (p *ports) take(t *testing.T) string {
	t.Helper()
	if p.next == 0 {
		p.next = 15000 + rand.IntN(15000)
	}
	for range 2000 {
		p.next++
		addr := fmt.Sprintf("127.0.0.1:%d", p.next)
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// deployment is three data centres in two rings, each part an operating system process.
type deployment struct {
	t      *testing.T
	dir    string
	file   string // of the configuration
	config process.Config
	ports  ports
	procs  map[string]*proc
}

// proc is the place of a process in the deployment, whether or not it runs.
type proc struct {
	name, http, redis string
	args              []string
	log               string
	cmd               *exec.Cmd
	ended             chan error
}

func two() *topology.File {
	return &topology.File{
		Epoch:       7,
		DataCenters: []topology.FileDataCenter{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Rings:       []topology.FileRing{{Name: "one", DataCenters: []string{"a", "b"}}, {Name: "two", DataCenters: []string{"c"}}},
		RoundTripMs: map[string]map[string]float64{"a": {"b": 8, "c": 20}, "b": {"c": 16}},
	}
}

var parts = []string{"coordinator", "middleman", "cache", "sidecar"}

// deploy starts everything and returns when all of it is ready.
func deploy(t *testing.T, change func(*process.Config)) *deployment {
	t.Helper()
	d := &deployment{t: t, dir: t.TempDir(), file: "causalstore.yaml", procs: map[string]*proc{}}
	key := d.path("token.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	d.config = process.Config{
		Topology: two(), TokenKeyFile: key, Addresses: map[string]process.Addresses{}, EmulateWAN: true,
		Session: process.Session{Scope: "Connection"}, Storage: process.Storage{Engine: "embedded"}, Log: process.Log{Level: "info"},
	}
	for _, dc := range []string{"a", "b", "c"} {
		d.config.Addresses[dc] = process.Addresses{
			Coordinators: []string{d.ports.take(t)}, Middlemen: []string{d.ports.take(t)}, Caches: []string{d.ports.take(t)}}
		for _, part := range parts {
			d.plan(dc, part)
		}
	}
	if change != nil {
		change(&d.config)
	}
	d.writeConfig()
	t.Cleanup(d.killAll)
	for _, p := range d.procs {
		d.start(p)
	}
	for _, p := range d.procs {
		d.awaitReady(p)
	}
	return d
}

func (d *deployment) path(elem ...string) string {
	return filepath.Join(append([]string{d.dir}, elem...)...)
}

func (d *deployment) configPath() string { return d.path(d.file) }

func (d *deployment) plan(dc, part string) {
	name := dc + "-" + part
	p := &proc{name: name, http: d.ports.take(d.t), log: d.path(name + ".log")}
	p.args = []string{part, "--config", d.configPath(), "--data-center", dc, "--listen-http", p.http, "--drain-timeout", "5s"}
	switch part {
	case "sidecar":
		p.redis = d.ports.take(d.t)
		p.args = append(p.args, "--listen-redis", p.redis)
	case "coordinator":
		p.args = append(p.args, "--data-dir", d.path(name))
	case "middleman":
		p.args = append(p.args, "--storage-dir", d.path(name))
	}
	d.procs[name] = p
}

// writeConfig replaces the configuration file in one step, as careful editors do.
func (d *deployment) writeConfig() {
	d.t.Helper()
	b, err := yaml.Marshal(d.config)
	if err == nil {
		err = os.WriteFile(d.configPath()+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(d.configPath()+".new", d.configPath())
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *deployment) start(p *proc) {
	d.t.Helper()
	log, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(os.Args[0], p.args...)
	p.cmd.Env = append(os.Environ(), runAsProgram+"=1")
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	cmd, ended := p.cmd, make(chan error, 1)
	p.ended = ended
	go func() { ended <- cmd.Wait() }()
}

// kill ends a process as a crash does.
func (d *deployment) kill(name string) {
	p := d.procs[name]
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
	p.cmd = nil
}

func (d *deployment) restart(name string) {
	d.t.Helper()
	d.start(d.procs[name])
	d.awaitReady(d.procs[name])
}

func (d *deployment) killAll() {
	for name, p := range d.procs {
		if p.cmd != nil {
			d.kill(name)
		}
		if b, err := os.ReadFile(p.log); d.t.Failed() && err == nil {
			d.t.Logf("log of %s ends with:\n%s", name, b[max(0, len(b)-3000):])
		}
	}
}

// get fetches a page of a process's HTTP address.
func (p *proc) get(path string) (int, []byte, error) {
	resp, err := http.Get("http://" + p.http + path)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

func (p *proc) readiness() (r process.Readiness, err error) {
	_, b, err := p.get("/readyz")
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return r, err
}

func (d *deployment) awaitReady(p *proc) {
	d.t.Helper()
	eventually(d.t, p.name+" to be ready", func() error {
		select {
		case err := <-p.ended:
			d.t.Fatalf("%s ended: %v", p.name, err)
		default:
		}
		r, err := p.readiness()
		if err == nil && !r.Ready {
			err = fmt.Errorf("%+v", r)
		}
		return err
	})
}

// client is an unmodified Redis client with one connection: one session.
func (d *deployment) client(dc string) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{
		Addr: d.procs[dc+"-sidecar"].redis, PoolSize: 1, MaxRetries: -1, ReadTimeout: 15 * time.Second,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	d.t.Cleanup(func() { c.Close() })
	return c
}

// metric returns the value of a series of a process, by the beginning of its line.
func (p *proc) metric(series string) (value float64, found bool) {
	_, b, err := p.get("/metrics")
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(b) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(string(line)), series); ok {
			fields := strings.Fields(rest)
			if _, err := fmt.Sscan(fields[len(fields)-1], &value); err == nil {
				return value, true
			}
		}
	}
	return 0, false
}
