package processes_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
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

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/ports"
	"github.com/causalstore/causalstore/sidecar/command"
	"github.com/causalstore/causalstore/topology"
)

// runAsProgram makes the test binary run as causalstore, so that the processes are built with the flags of the tests.
const runAsProgram = "CAUSALSTORE_TEST_RUN_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(runAsProgram) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := command.ExecuteWith(ctx, command.Options{EmulateWAN: true})
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// patience bounds every wait. Only a fault reaches it.
const patience = time.Minute

// eventually waits until cond returns nil. The longer it has waited, the less often it looks: processes that start need
// the processor.
func eventually(t *testing.T, what string, cond func() error) {
	t.Helper()
	for began := time.Now(); ; {
		err := cond()
		if err == nil {
			return
		}
		waited := time.Since(began)
		if waited > patience {
			t.Fatalf("timed out waiting for %s: %v", what, err)
		}
		time.Sleep(min(max(waited/8, 20*time.Millisecond), 250*time.Millisecond))
	}
}

// pace is the time between two operations of a client that goes on until a test has seen enough. What the tests show
// takes hundreds of operations while something happens; as many as fit would take the processors from whatever else
// runs.
const pace = 10 * time.Millisecond

// deployment is three data centers in two rings. Each part is an operating system process.
type deployment struct {
	t      *testing.T
	dir    string
	file   string // name of the configuration file
	config contract.Config
	certs  *certificates // nil: without TLS
	// seenFrom changes what a part of a data center is told; nil for nothing. It needs certs.
	seenFrom func(dc, part string, c *contract.Config)
	procs    map[string]*proc
}

// proc is a process of the deployment, running or not.
type proc struct {
	name, http, redis string
	args              []string
	env               []string // beside that of the test
	log               string
	program           string // "": this one
	cmd               *exec.Cmd
	started           time.Time
	ended             chan error
}

func two() *topology.File {
	return &topology.File{
		Epoch:       7,
		DataCenters: []topology.FileDataCenter{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Rings: []topology.FileRing{{Name: "one", DataCenters: []string{"a", "b"}},
			{Name: "two", DataCenters: []string{"c"}}},
		RoundTripMs: map[string]map[string]float64{"a": {"b": 8, "c": 20}, "b": {"c": 16}},
	}
}

var parts = []string{"coordinator", "middleman", "cache", "sidecar"}

// waitLong makes operations wait for a slow machine, so that only what can never be answered fails.
func waitLong(c *contract.Config) {
	c.Session.ReadTimeout, c.Session.WriteTimeout = contract.Duration(patience), contract.Duration(patience)
}

// deploy starts all processes and waits until they are ready.
func deploy(t *testing.T, change func(*contract.Config)) *deployment {
	t.Helper()
	return deployWith(t, nil, change)
}

// deployWith starts all processes with certificates, and waits until they are ready.
func deployWith(t *testing.T, certs *certificates, change func(*contract.Config)) *deployment {
	t.Helper()
	d := planDeployment(t, certs, change)
	d.startAll()
	return d
}

// planDeployment chooses addresses and files, and starts nothing.
func planDeployment(t *testing.T, certs *certificates, change func(*contract.Config)) *deployment {
	t.Helper()
	d := &deployment{t: t, dir: shortDir(t), file: "causalstore.yaml", certs: certs, procs: map[string]*proc{}}
	d.config = contract.Config{
		Topology: two(), Addresses: map[string]contract.Addresses{},
		Session: contract.Session{Scope: "Connection"}, Storage: contract.Storage{Engine: "embedded"},
		Log: contract.Log{Level: "info"},
	}
	if certs == nil {
		d.config.TokenKeyFile = d.path("token.key")
		must(t, os.WriteFile(d.config.TokenKeyFile, []byte(strings.Repeat("k", 32)), 0o600))
	}
	for _, dc := range []string{"a", "b", "c"} {
		d.config.Addresses[dc] = contract.Addresses{
			Coordinators: []string{ports.ForTest(t)}, Middlemen: []string{ports.ForTest(t)},
			Caches: []string{ports.ForTest(t)}}
		for _, part := range parts {
			d.plan(dc, part)
		}
	}
	if change != nil {
		change(&d.config)
	}
	return d
}

// shortDir returns a directory that is removed at the end. That of testing has the name of the test in it, and so may
// be too long for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "deployment") //nolint:usetesting // see above
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// startAll starts all processes and waits until they are ready.
func (d *deployment) startAll() {
	d.t.Helper()
	d.writeConfig()
	d.t.Cleanup(d.killAll)
	for _, p := range d.procs {
		d.start(p)
	}
	for _, p := range d.procs {
		d.awaitReady(p)
	}
}

func (d *deployment) path(elem ...string) string {
	return filepath.Join(append([]string{d.dir}, elem...)...)
}

func (d *deployment) configPath() string { return d.path(d.file) }

func (d *deployment) plan(dc, part string) {
	name := dc + "-" + part
	p := &proc{name: name, http: ports.ForTest(d.t), log: d.path(name + ".log")}
	p.args = []string{part, "--config", d.configOf(dc, part), "--data-center", dc, "--listen-http", p.http,
		"--drain-timeout", "5s"}
	switch part {
	case "sidecar":
		p.redis = ports.ForTest(d.t)
		p.args = append(p.args, "--listen-redis", p.redis, "--pprof")
	case "coordinator":
		p.args = append(p.args, "--data-dir", d.path(name))
	case "middleman":
		p.args = append(p.args, "--storage-dir", d.path(name))
	}
	d.procs[name] = p
}

// configOf returns the configuration file of a part: all share one, unless each has a certificate of its own.
func (d *deployment) configOf(dc, part string) string {
	if d.certs == nil {
		return d.configPath()
	}
	return d.path(dc + "-" + part + ".yaml")
}

// writeConfig replaces the configuration files atomically.
func (d *deployment) writeConfig() {
	d.t.Helper()
	if d.certs == nil {
		d.writeConfigFile(d.configPath(), d.config)
		return
	}
	for _, dc := range []string{"a", "b", "c"} {
		for _, part := range parts {
			c := d.config
			c.TLS = d.certs.of(dc, part)
			if d.seenFrom != nil {
				c.Addresses = maps.Clone(c.Addresses)
				d.seenFrom(dc, part, &c)
			}
			d.writeConfigFile(d.configOf(dc, part), c)
		}
	}
}

func (d *deployment) writeConfigFile(path string, c contract.Config) {
	d.t.Helper()
	b, err := yaml.Marshal(c)
	if err == nil {
		err = os.WriteFile(path+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
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
	p.cmd = exec.Command(cmp.Or(p.program, os.Args[0]), p.args...)
	// With one processor for each process of a deployment, a message wakes fewer threads: that takes a sixth less
	// processor time. Parts that use several at a time are tested in lab/local and sidecar/node, with the race
	// detector.
	p.cmd.Env = append(append(os.Environ(), runAsProgram+"=1", "GOMAXPROCS=1"), p.env...)
	p.cmd.Stdout, p.cmd.Stderr, p.started = log, log, time.Now()
	if err := p.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	cmd, ended := p.cmd, make(chan error, 1)
	p.ended = ended
	go func() { ended <- cmd.Wait() }()
}

// kill kills a process, as a crash would.
func (d *deployment) kill(name string) {
	p := d.procs[name]
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended                // it was told to end, and says why
	p.cmd = nil
}

func (d *deployment) restart(name string) {
	d.t.Helper()
	d.start(d.procs[name])
	d.awaitReady(d.procs[name])
}

// stop tells a process to end and waits until it has.
func (d *deployment) stop(name string) {
	d.t.Helper()
	p := d.procs[name]
	must(d.t, p.cmd.Process.Signal(syscall.SIGTERM))
	must(d.t, <-p.ended)
	p.cmd = nil
}

func (d *deployment) killAll() {
	for name, p := range d.procs {
		if p.cmd != nil {
			d.kill(name)
		}
		if b, err := os.ReadFile(p.log); d.t.Failed() && err == nil {
			d.t.Logf("end of the log of %s:\n%s", name, b[max(0, len(b)-3000):])
		}
	}
}

// get requests a path from the HTTP address of a process.
func (p *proc) get(path string) (int, []byte, error) {
	resp, err := http.Get("http://" + p.http + path)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

func (p *proc) readiness() (r contract.Readiness, err error) {
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
			p.ended <- err // for killAll
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

// client returns an unmodified Redis client with one connection, which is one session.
func (d *deployment) client(dc string) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{
		Addr: d.procs[dc+"-sidecar"].redis, PoolSize: 1, MaxRetries: -1, ReadTimeout: 2 * patience,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	d.t.Cleanup(func() { c.Close() })
	return c
}

// metric returns the value of the first series of a process whose line starts with a prefix.
func (p *proc) metric(prefix string) (value float64, found bool) {
	_, b, err := p.get("/metrics")
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(b) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(string(line)), prefix); ok {
			fields := strings.Fields(rest)
			if _, err := fmt.Sscan(fields[len(fields)-1], &value); err == nil {
				return value, true
			}
		}
	}
	return 0, false
}
