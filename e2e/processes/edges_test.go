package processes_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/edge"
	labenvoy "github.com/causalstore/causalstore/lab/envoy"
	"github.com/causalstore/causalstore/lab/ports"
)

// envoy is the edge of a data center, with folders and ports of its own.
type envoy struct {
	*labenvoy.Edge
	t   *testing.T
	cmd *exec.Cmd
}

// write writes the files of a configuration.
func (e *envoy) write(in edge.Input, certificate string) {
	e.t.Helper()
	cert, err := os.ReadFile(certificate + ".crt")
	must(e.t, err)
	key, err := os.ReadFile(certificate + ".key")
	must(e.t, err)
	must(e.t, e.Write(in, cert, key))
}

// start starts Envoy and waits until its listeners work.
func (e *envoy) start() {
	e.t.Helper()
	args, err := e.Arguments()
	must(e.t, err)
	log, err := os.OpenFile(filepath.Join(e.Dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	must(e.t, err)
	defer log.Close()
	e.cmd = exec.Command(os.Getenv(labenvoy.ProgramVariable), args...)
	e.cmd.Stdout, e.cmd.Stderr = log, log
	must(e.t, e.cmd.Start())
	eventually(e.t, "Envoy to be ready", func() error { return e.Ready(e.t.Context()) })
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

// startEdges gives each data center an edge. Data centers a and b are in one region, and dial each other directly; c is
// in another one, of another trust domain.
func (d *deployment) startEdges(eu, us string) map[string]*envoy {
	d.t.Helper()
	edges := map[string]*envoy{}
	for _, dc := range []string{"a", "b", "c"} {
		e := &envoy{t: d.t, Edge: &labenvoy.Edge{Dir: d.t.TempDir(), Egress: ports.ForTest(d.t),
			EgressParts: ports.ForTest(d.t),
			Ingress:     ports.ForTest(d.t), HTTP: ports.ForTest(d.t)}}
		edges[dc] = e
		d.t.Cleanup(func() {
			e.kill()
			if b, err := os.ReadFile(filepath.Join(e.Dir, "log")); d.t.Failed() && err == nil {
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
		for role, addr := range map[contract.Role]string{contract.RoleCoordinator: own.Coordinators[0],
			contract.RoleMiddleman: own.Middlemen[0], contract.RoleCache: own.Caches[0]} {
			in.Parts = append(in.Parts, edge.Part{Name: contract.PartName(role, 0, dc, "test"), Address: addr})
		}
		for other := range edges {
			if authorities[other] != authorities[dc] {
				p := edge.Peer{DataCenter: other, Address: edges[other].Ingress}
				p.TrustDomain, p.Bundle = domain(other)
				in.Peers = append(in.Peers, p)
			}
		}
		e.write(in, d.certs.issue(authorities[dc], dc, "edge", "0"))
		e.start()
	}
	d.seenFrom = func(dc, part string, c *contract.Config) {
		for other := range edges {
			if authorities[other] != authorities[dc] {
				at := func(role contract.Role) []string {
					return []string{contract.PartAddress(role, 0, other, "test")}
				}
				c.Addresses[other] = contract.Addresses{Coordinators: at(contract.RoleCoordinator),
					Middlemen: at(contract.RoleMiddleman), Caches: at(contract.RoleCache),
					Via: edges[dc].Via(contract.Role(part))}
			}
		}
	}
	return edges
}

// deployRegions starts a deployment of two regions: a and b are in one, c is in the other. It returns when they are
// connected.
func deployRegions(t *testing.T) (*deployment, map[string]*envoy) {
	t.Helper()
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
	certs.run("trust", "--store-id", "test", "--out", certs.trustFile(), "--data-center", "a="+eu, "--data-center",
		"b="+eu, "--data-center", "c="+us)
	d := planDeployment(t, certs, waitLong)
	edges := d.startEdges(eu, us)
	d.startAll()
	for _, pair := range [][2]string{{"a", "b"}, {"a", "c"}, {"b", "c"}, {"c", "a"}, {"c", "b"}} {
		d.awaitPeer(pair[0], pair[1], contract.PeerConnected)
	}
	return d, edges
}

func TestRegionsAreJoinedByTheirEdgesOnly(t *testing.T) {
	if os.Getenv(labenvoy.ProgramVariable) == "" {
		t.Skipf("%s names no Envoy; see CONTRIBUTING.md", labenvoy.ProgramVariable)
	}
	d, edges := deployRegions(t)
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
		eventually(t, fmt.Sprintf("%d acknowledged writes in %s", len(acknowledged), dc), func() error {
			return missing(t.Context(), client, acknowledged)
		})
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
