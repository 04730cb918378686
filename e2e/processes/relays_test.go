package processes_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/ports"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/identity"
	"github.com/causalstore/causalstore/sidecar/signature"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

// threeRegions starts three data centers, each a region with an authority of its own and a trust file of its own.
func threeRegions(t *testing.T) *deployment {
	t.Helper()
	certs := newCertificates(t)
	args := []string{"trust", "--store-id", "test", "--out", certs.trustFile()}
	for _, dc := range []string{"a", "b", "c"} {
		ca := certs.authority("region-"+dc, dc+".example.com")
		certs.issueDC(ca, dc)
		args = append(args, "--data-center", dc+"="+ca)
	}
	certs.run(args...)
	d := planDeployment(t, certs, waitLong)
	d.seenFrom = func(dc, _ string, c *contract.Config) {
		c.TLS.Trust = d.trustOf(dc)
	}
	for _, dc := range []string{"a", "b", "c"} {
		certs.trustAt(d.trustOf(dc), func(*contract.Trust) {})
	}
	d.startAll()
	return d
}

func (d *deployment) trustOf(dc string) string { return d.path("trust-" + dc + ".yaml") }

// cutLeaders makes the first coordinators of two data centers unable to reach each other. Everybody else still reaches
// both.
func (d *deployment) cutLeaders(a, b string) {
	d.t.Helper()
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		c := d.config
		c.TLS = d.certs.of(pair[0], "coordinator")
		c.TLS.Trust = d.trustOf(pair[0])
		c.Addresses = maps.Clone(c.Addresses)
		other := c.Addresses[pair[1]]
		other.Coordinators = []string{ports.ForTest(d.t)} // nobody listens there
		c.Addresses[pair[1]] = other
		d.writeConfigFile(d.configOf(pair[0], "coordinator"), c)
	}
}

// ofDC is a series of the first coordinator of data center a, about another one.
func ofDC(name, of string) string {
	return fmt.Sprintf(`causalstore_coordinator_%s{data_center="a",index="0",member="1",of_data_center=%q,`, name, of)
}

// awaitAbove waits until a series of a process is above a value, and returns it.
func (d *deployment) awaitAbove(proc, series string, value float64) (now float64) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("%s of %s to exceed %v", series, proc, value), func() error {
		v, ok := d.procs[proc].metric(series)
		if !ok || v <= value {
			return fmt.Errorf("%v, %v", v, ok)
		}
		now = v
		return nil
	})
	return now
}

// awaitCut waits until a sidecar knows that everything that was written before now, anywhere, is complete.
func (d *deployment) awaitCut(dc string) {
	d.t.Helper()
	from := time.Now()
	eventually(d.t, "the cut in "+dc+" to pass this moment", func() error {
		before := time.Now()
		lag, ok := d.procs[dc+"-sidecar"].metric("causalstore_sidecar_stability_lag_seconds{")
		if at := before.Add(-time.Duration(lag * float64(time.Second))); !ok || !at.After(from) {
			return fmt.Errorf("it is %v s behind", lag)
		}
		return nil
	})
}

func TestWhatADataCenterCannotHearReachesItThroughAnotherOne(t *testing.T) {
	d := threeRegions(t)
	a, c := d.client("a"), d.client("c")
	d.awaitCut("a")
	d.awaitCut("c")
	d.cutLeaders("a", "c")
	relayed := ofDC("relayed_vectors_total", "c")
	d.awaitAbove("a-coordinator", relayed, 0)
	must(t, c.Set(t.Context(), "x", "1", 0).Err())
	must(t, c.Do(t.Context(), "CAUSAL", "WAIT", "all", 60_000).Err())
	d.awaitCut("a") // which includes what c has completed until now, and a does not hear c
	d.awaitCut("c")
	awaitValue(t, "a", a, "x", "1")

	// c has new certificates: what it signs from now on goes on being believed.
	d.certs.issueDC(d.certs.dir+"/region-c", "c")
	eventually(t, "the new certificates to be loaded", func() error {
		log, err := os.ReadFile(d.procs["c-coordinator"].log)
		if err == nil && !bytes.Contains(log, []byte("loaded new TLS files")) {
			err = fmt.Errorf("they are not")
		}
		return err
	})
	d.awaitAbove("a-coordinator", relayed, d.awaitAbove("a-coordinator", relayed, 0)+2)
	d.awaitCut("a")
	refused := ofDC("vectors_refused_total", "c")
	if v, ok := d.procs["a-coordinator"].metric(refused); !ok || v != 0 {
		t.Errorf("%v were refused, %v", v, ok)
	}

	// a does not trust the region of c any more, and b still does and passes on what c signs.
	d.certs.trustAt(d.trustOf("a"), func(trust *contract.Trust) { delete(trust.Bundles, "c.example.com") })
	n := d.awaitAbove("a-coordinator", refused, 0)
	before, _ := d.procs["a-coordinator"].metric(relayed)
	d.awaitAbove("a-coordinator", refused, n+3)
	if after, _ := d.procs["a-coordinator"].metric(relayed); after != before {
		t.Errorf("%v vectors of a region that is not trusted were taken", after-before)
	}
}

// attackAs joins the network of a deployment as the first coordinator of a data center, with its certificate, and sends
// what it is given.
func (d *deployment) attackAs(dc string) (send func(causal.Message), own topology.Node, top *topology.Topology) {
	d.t.Helper()
	top, err := d.config.Topology.Topology()
	must(d.t, err)
	id, _ := top.ByName(dc)
	own = top.Leader(id)
	files := d.certs.of(dc, "coordinator")
	files.Trust = d.trustOf(dc)
	net, err := transport.NewGRPC(transport.Config{
		Process: "attacker", Nodes: []topology.Node{own.WithMember(1)}, Handler: func([]causal.Message) {}, TLS: files,
		Log:      slog.New(slog.DiscardHandler),
		Topology: func() *topology.Topology { return top }, Members: top.MembersOf, Binding: causal.Dynamic.String(),
		Resolve: func(n topology.Node) (string, bool) {
			if n.Part != topology.Coordinator || n.Member != 1 || n.DC == own.DC {
				return "", false
			}
			return d.config.Addresses[top.DCs[n.DC].Name].Coordinators[0], true
		},
	})
	must(d.t, err)
	d.t.Cleanup(func() { _ = net.Close() })
	return net.Send, own, top
}

// Whoever has taken over region b has the certificate of its first coordinator.
func TestALeaderCannotSayThatTheWritesOfAnotherDataCenterAreComplete(t *testing.T) {
	d := threeRegions(t)
	d.awaitCut("a")
	d.kill("b-coordinator")
	send, own, top := d.attackAs("b")
	victim, c := top.Leader(0), topology.DC(2)
	first := top.OriginOf(top.Leader(c))
	claim := []causal.VectorEntry{{Origin: first, Last: first + topology.MaxCoordinators - 1,
		SV: causal.HLCAt(time.Now().Add(30 * time.Second).UnixMilli())}}
	attack := func(series string, m causal.Message) {
		t.Helper()
		before, _ := d.procs["a-coordinator"].metric(series)
		eventually(t, series+" to count it", func() error {
			send(m)
			if v, ok := d.procs["a-coordinator"].metric(series); !ok || v <= before {
				return fmt.Errorf("%v, %v", v, ok)
			}
			return nil
		})
	}
	relayed := ofDC("relayed_vectors_total", "c")
	believed, ok := d.procs["a-coordinator"].metric(relayed)
	if !ok {
		t.Fatalf("%s is not exported", relayed)
	}
	violations := `causalstore_transport_violations_total{data_center="a",index="0",kind="content"`
	attack(violations, causal.Vectors{Entries: claim}.Message(own, victim))
	log, err := os.ReadFile(d.procs["a-coordinator"].log)
	must(t, err)
	if n := bytes.Count(log, []byte("the peer must not do this")); n != 1 ||
		!bytes.Contains(log, []byte("vectors from coordinator-0@dc1 to coordinator-0@dc0: foreign content")) {
		t.Errorf("the violation is logged %d times: %s", n, log)
	}

	// What it signs itself, for c, is refused too.
	base := d.certs.of("b", "coordinator")
	cert, err := tls.LoadX509KeyPair(base.Cert, base.Key)
	must(t, err)
	text, err := os.ReadFile(d.trustOf("b"))
	must(t, err)
	trust, err := identity.ParseTrust(text)
	must(t, err)
	signer := signature.NewVectors(func() (*tls.Certificate, *identity.Trust) {
		return &cert, trust
	}, func() *topology.Topology { return top }, time.Now,
		slog.New(slog.DiscardHandler))
	forged := causal.SignedVectors{DC: c, Entries: claim}
	forged.Seal, err = signer.Sign(forged.Statement())
	must(t, err)
	refused := ofDC("vectors_refused_total", "c")
	attack(refused, forged.Message(own, victim))
	attack(refused, causal.SignedVectors{DC: c, Entries: claim}.Message(own, victim))
	attack(violations, causal.SignedVectors{DC: own.DC, Entries: claim}.Message(own, victim))
	if v, _ := d.procs["a-coordinator"].metric(relayed); v != believed {
		t.Errorf("%v claims were believed", v-believed)
	}
}
