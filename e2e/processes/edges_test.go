package processes_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/edge"
)

// envoyEnv names the program of Envoy.
const envoyEnv = "CAUSALSTORE_ENVOY"

// envoy is the edge of a data center, with folders and ports of its own.
type envoy struct {
	t                     *testing.T
	dir                   string
	egress, ingress, http string
	cmd                   *exec.Cmd
}

// write writes the files of a configuration. Paths and ports are moved from those of a pod.
func (e *envoy) write(in edge.Input, certificate string) {
	e.t.Helper()
	files, err := edge.Configure(in)
	must(e.t, err)
	for _, suffix := range []string{"crt", "key"} {
		text, err := os.ReadFile(certificate + "." + suffix)
		must(e.t, err)
		must(e.t, os.WriteFile(filepath.Join(e.dir, "0."+suffix), text, 0o600))
	}
	for name, text := range files {
		must(e.t, os.WriteFile(filepath.Join(e.dir, name), []byte(e.moved(text)), 0o600))
	}
}

func (e *envoy) moved(text string) string {
	for from, to := range map[int]string{edge.PortEgress: e.egress, edge.PortIngress: e.ingress, edge.PortHTTP: e.http} {
		_, port, err := net.SplitHostPort(to)
		must(e.t, err)
		text = regexp.MustCompile(`address: 0\.0\.0\.0(\s+port_value: )`+strconv.Itoa(from)).ReplaceAllString(text, "address: 127.0.0.1${1}"+port)
	}
	return strings.NewReplacer(edge.ConfigDir, e.dir, edge.CertificateDir, e.dir, "@causalstore-edge-admin", "@causalstore-processes-"+e.http).Replace(text)
}

// start starts Envoy and waits until its listeners work.
func (e *envoy) start() {
	e.t.Helper()
	var args []string
	for _, a := range edge.Arguments() {
		args = append(args, e.moved(a))
	}
	log, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	must(e.t, err)
	defer log.Close()
	e.cmd = exec.Command(os.Getenv(envoyEnv), args...)
	e.cmd.Stdout, e.cmd.Stderr = log, log
	must(e.t, e.cmd.Start())
	eventually(e.t, "Envoy to be ready", func() error {
		resp, err := http.Get("http://" + e.http + "/ready")
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", resp.Status)
		}
		conn, err := net.Dial("tcp", e.egress)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// kill kills Envoy, as a crash would.
func (e *envoy) kill() {
	if e.cmd == nil {
		return
	}
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait() // it says that it was killed
	e.cmd = nil
}

// startEdges gives each data center an edge. Data centers a and b are in one region, and dial each other directly; c is in
// another one, of another trust domain.
func (d *deployment) startEdges(eu, us string) map[string]*envoy {
	d.t.Helper()
	edges := map[string]*envoy{}
	for _, dc := range []string{"a", "b", "c"} {
		e := &envoy{t: d.t, dir: d.t.TempDir(), egress: d.ports.take(d.t), ingress: d.ports.take(d.t), http: d.ports.take(d.t)}
		edges[dc] = e
		d.t.Cleanup(func() {
			e.kill()
			if b, err := os.ReadFile(filepath.Join(e.dir, "log")); d.t.Failed() && err == nil {
				d.t.Logf("end of the log of the edge of %s:\n%s", dc, b[max(0, len(b)-3000):])
			}
		})
	}
	authorities := map[string]string{"a": eu, "b": eu, "c": us}
	domain := func(dc string) (name, bundle string) {
		b, err := os.ReadFile(filepath.Join(authorities[dc], "authority.crt"))
		must(d.t, err)
		return filepath.Base(authorities[dc]), string(b)
	}
	for dc, e := range edges {
		in := edge.Input{StoreID: "test", DataCenter: dc}
		in.TrustDomain, in.Bundle = domain(dc)
		own := d.config.Addresses[dc]
		for role, addr := range map[contract.Role]string{contract.RoleCoordinator: own.Coordinators[0], contract.RoleMiddleman: own.Middlemen[0], contract.RoleCache: own.Caches[0]} {
			in.Parts = append(in.Parts, edge.Part{Name: contract.PartName(role, 0, dc, "test"), Address: addr})
		}
		for other := range edges {
			if authorities[other] != authorities[dc] {
				p := edge.Peer{DataCenter: other, Address: edges[other].ingress}
				p.TrustDomain, p.Bundle = domain(other)
				in.Peers = append(in.Peers, p)
			}
		}
		e.write(in, d.certs.issue(authorities[dc], dc, "edge", "0"))
		e.start()
	}
	d.seenFrom = func(dc string, c *contract.Config) {
		for other := range edges {
			if authorities[other] != authorities[dc] {
				at := func(role contract.Role) []string { return []string{contract.PartAddress(role, 0, other, "test")} }
				c.Addresses[other] = contract.Addresses{Coordinators: at(contract.RoleCoordinator), Middlemen: at(contract.RoleMiddleman), Caches: at(contract.RoleCache), Via: edges[dc].egress}
			}
		}
	}
	return edges
}

func TestRegionsAreJoinedByTheirEdgesOnly(t *testing.T) {
	if os.Getenv(envoyEnv) == "" {
		t.Skipf("%s names no Envoy; see controllers/edge", envoyEnv)
	}
	certs := newCertificates(t)
	eu, us := certs.authority("eu", "eu"), certs.authority("us", "us")
	certs.issueAll(eu)
	for _, role := range parts {
		member := "0"
		if role == "sidecar" {
			member = "shop"
		}
		certs.issue(us, "c", role, member)
	}
	certs.run("trust", "--store-id", "test", "--out", certs.trustFile(), "--data-center", "a="+eu, "--data-center", "b="+eu, "--data-center", "c="+us)
	d := planDeployment(t, certs, waitLong)
	edges := d.startEdges(eu, us)
	d.startAll()
	for _, pair := range [][2]string{{"a", "b"}, {"a", "c"}, {"b", "c"}, {"c", "a"}, {"c", "b"}} {
		d.awaitPeer(pair[0], pair[1], contract.PeerConnected)
	}
	a, c := d.client("a"), d.client("c")
	must(t, a.Set(t.Context(), "x", "1", 0).Err())
	awaitValue(t, "c", c, "x", "1")

	writer := d.startWriter("c")
	recorded := d.startLoad(12 * time.Second)
	for _, dc := range []string{"a", "c", "b", "c"} {
		writer.progress(t, 50)
		edges[dc].kill()
		writer.progress(t, 50)
		edges[dc].start()
		for _, other := range []string{"a", "b"} {
			d.awaitPeer(other, "c", contract.PeerConnected)
			d.awaitPeer("c", other, contract.PeerConnected)
		}
	}
	acknowledged := writer.stop()
	for _, dc := range []string{"a", "b", "c"} {
		client := d.client(dc)
		eventually(t, fmt.Sprintf("%d acknowledged writes in %s", len(acknowledged), dc), func() error { return missing(t.Context(), client, acknowledged) })
	}
	result := <-recorded
	must(t, result.err)
	t.Logf("%d writes were acknowledged to the writer; %s%v", len(acknowledged), result.text, result.report)
	if err := result.report.Err(); err != nil {
		t.Error(err)
	}
	if result.ops < 100 || result.failed > 0 {
		t.Errorf("%d operations succeeded, and %d failed", result.ops, result.failed)
	}
	for _, p := range d.procs {
		if v, ok := p.metric("causalstore_transport_violations_total"); ok && v > 0 {
			t.Errorf("%s counts violations", p.name)
		}
	}
}
