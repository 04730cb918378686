//go:build e2e

package regions_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/e2e/kube"
)

// journey is the life of one store in several regions. Each of its steps needs the ones before.
type journey struct {
	written int
}

func TestAStoreOfSeveralRegionsFromHelmInstallToAnotherAuthority(t *testing.T) {
	j := &journey{}
	for _, step := range []struct {
		name string
		do   func([]region)
	}{
		{"Helm installs an operator in each region", j.install},
		{"the regions trust each other", j.trust},
		{"one manifest makes the store ready in both", j.create},
		{"what is written in one region is read in the other", j.exchange},
		{"the WAN is cut and heals", j.underLoad(cut)},
		{"the WAN is congested", j.underLoad(congest)},
		{"the operator of a region is away", j.underLoad(stopOperator)},
		{"the edges are rolled", j.underLoad(rollEdges)},
		{"an authority is replaced", j.underLoad(rotateAuthority)},
		{"a region is not trusted any more, and joins again", j.underLoad(revoke)},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(openRegions(t)) }) {
			t.FailNow()
		}
	}
}

func (j *journey) install(regions []region) {
	for _, r := range regions {
		r.operator().Helm("upgrade", "--install", "causalstore", "charts/causalstore", "--create-namespace", "--set",
			"region="+r.name,
			"--set", kube.ImageValues(kube.ImageStore), "--set", kube.EdgeImageValues(kube.ImageEnvoy), "--set",
			"replicas=1", "--wait", "--timeout", kube.Patience.String())
		r.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + namespace + "}}")
	}
}

func (j *journey) trust(regions []region) {
	plugin(regions[0].T, regions, "trust", "--yes")
}

func (j *journey) create(regions []region) {
	began := time.Now()
	text := manifest(regions)
	for _, r := range regions {
		r.Apply(text)
	}
	for _, r := range regions {
		r.AwaitReady(storeName)
		r.awaitConditions("True", "PeersTrusted", "PeersConnected", "EdgesReady")
	}
	if screen := plugin(regions[0].T, regions, "status", storeName, "--namespace", namespace); strings.Contains(screen,
		"MANIFESTS DIFFER") || !strings.Contains(screen, "ring-eu") {
		regions[0].Error("the status over all regions is not what it should be")
	}
	for _, command := range []string{"top", "topology"} {
		plugin(regions[0].T, regions, command, storeName, "--namespace", namespace)
	}
	regions[0].Logf("the store is ready in all regions %.0f s after kubectl apply", time.Since(began).Seconds())
}

// awaitConditions waits until conditions of the store have a status.
func (r region) awaitConditions(status string, conditions ...string) {
	r.Helper()
	for _, c := range conditions {
		r.AwaitOutput(status, "get", "causalstore", storeName, "-o",
			fmt.Sprintf(`jsonpath={.status.conditions[?(@.type=="%s")].status}`, c))
	}
}

// exchange writes in each region and reads what it has written in all others, once it is complete.
func (j *journey) exchange(regions []region) {
	var clients []*redis.Client
	for _, r := range regions {
		clients = append(clients, r.client())
	}
	for i, from := range regions {
		j.written++
		key, value := fmt.Sprintf("from-%s-%d", from.name, j.written), fmt.Sprint(j.written)
		from.Await("a write to be in every ring", func() string {
			c := clients[i].Conn()
			defer c.Close()
			if err := c.Set(from.Context(), key, value, 0).Err(); err != nil {
				return err.Error()
			}
			rings, err := c.Do(from.Context(), "CAUSAL", "WAIT", "all", "5000").Int()
			if err != nil || rings == 0 {
				return fmt.Sprintf("CAUSAL WAIT answers %d (%v)", rings, err)
			}
			return ""
		})
		for k, to := range regions {
			if got, err := clients[k].Get(to.Context(), key).Result(); err != nil || got != value {
				to.Errorf("in %s, %s is %q (%v), want %q", to.name, key, got, err, value)
			}
		}
	}
}

// underLoad does something while clients in all regions load the store. No operation may fail, and afterwards what is
// written in one region is read in the other.
func (j *journey) underLoad(do func([]region)) func([]region) {
	return func(regions []region) {
		t := regions[0].T
		l := startLoad(t, regions)
		do(regions)
		for _, r := range regions {
			r.awaitConditions("True", "Ready", "PeersConnected")
		}
		j.exchange(regions)
		if failed := l.stop(); failed != "0 failed, 0 of unknown outcome" {
			t.Errorf("of the load: %s", failed)
		}
	}
}

func cut(regions []region) {
	wan(regions[0].T, "cut")
	for _, r := range regions {
		r.awaitConditions("False", "PeersConnected")
	}
	r := regions[0]
	client := r.client().Conn()
	if err := client.Set(r.Context(), "cut-off", "1", 0).Err(); err != nil {
		r.Fatal(err)
	}
	wan(r.T, "heal")
	began := time.Now()
	if rings, err := client.Do(r.Context(), "CAUSAL", "WAIT", "all", "30000").Int(); err != nil || rings == 0 {
		r.Fatalf("after the heal, CAUSAL WAIT answers %d (%v)", rings, err)
	}
	r.Logf("what was written during the cut is in every ring %.1f s after it has healed", time.Since(began).Seconds())
	if err := client.Close(); err != nil {
		r.Error(err)
	}
}

func congest(regions []region) {
	r := regions[0]
	client := r.client().Conn()
	wan(r.T, "congest", "100k")
	for i := range 20 { // 1 MB in all, beside the load
		if err := client.Set(r.Context(), fmt.Sprint("congested-", i), strings.Repeat("x", 50_000),
			0).Err(); err != nil {
			r.Fatal(err)
		}
		r.Await("a write over the congested WAN to be in every ring", func() string {
			rings, err := client.Do(r.Context(), "CAUSAL", "WAIT", "all", "20000").Int()
			if err != nil || rings == 0 {
				return fmt.Sprintf("CAUSAL WAIT answers %d (%v)", rings, err)
			}
			return ""
		})
	}
	wan(r.T, "heal")
	if err := client.Close(); err != nil {
		r.Error(err)
	}
}

func stopOperator(regions []region) {
	o := regions[0].operator()
	o.Kubectl("scale", "deployment/causalstore", "--replicas=0")
	o.AwaitOutput("", "get", "pods", "-o", "name")
	for _, r := range regions {
		// nothing that they need is in the operator
		r.Kubectl("delete", "pod", "-l", "app.kubernetes.io/component=edge", "--wait")
		r.awaitEdges()
	}
	o.Kubectl("scale", "deployment/causalstore", "--replicas=1")
	o.Kubectl("rollout", "status", "deployment/causalstore", "--timeout="+kube.Patience.String())
}

// edge is the name of the region's edge.
func (r region) edge() string { return "deployment/" + storeName + "-" + r.dataCenter() + "-edge" }

func (r region) awaitEdges() {
	r.Helper()
	r.Kubectl("rollout", "status", r.edge(), "--timeout="+kube.Patience.String())
}

func rollEdges(regions []region) {
	for _, r := range regions {
		r.Kubectl("rollout", "restart", r.edge())
		r.awaitEdges()
	}
}

// rotateAuthority replaces the authority of the first region, which issues once the parts in both regions have said
// that they accept it.
func rotateAuthority(regions []region) {
	t, r := regions[0].T, regions[0]
	coordinator := storeName + "-" + r.dataCenter() + "-cc-0"
	before := r.issuedUntil()
	plugin(t, regions, "rotate-ca", r.name, "--yes")
	r.Await(coordinator+" to use a certificate of the new authority", func() string {
		issued, used := r.issuedUntil(), r.usedUntil(coordinator)
		if issued.Equal(before) || !used.Equal(issued) {
			return fmt.Sprintf("it uses the one that expires at %s; the one in its Secret, at %s", used, issued)
		}
		return ""
	})
	r.awaitConditions("True", "CertificatesCurrent")
}

var expires = regexp.MustCompile(`"loaded new TLS files".*"expires":"([^"]+)"`)

// usedUntil returns when the certificate expires that a coordinator has loaded last; zero if it has loaded none since
// its start.
func (r region) usedUntil(pod string) (until time.Time) {
	for _, m := range expires.FindAllStringSubmatch(r.Kubectl("logs", pod, "-c", "coordinator"), -1) {
		var err error
		if until, err = time.Parse(time.RFC3339, m[1]); err != nil {
			r.Fatal(err)
		}
	}
	return until
}

// issuedUntil returns when the certificate of the first coordinator in its Secret expires.
func (r region) issuedUntil() time.Time {
	text := r.Kubectl("get", "secret", storeName+"-"+r.dataCenter()+"-coordinator-tls", "-o", `jsonpath={.data.0\.crt}`)
	certificate, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		r.Fatal(err)
	}
	block, _ := pem.Decode(certificate)
	if block == nil {
		r.Fatalf("the Secret has no certificate: %q", certificate)
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		r.Fatal(err)
	}
	return parsed.NotAfter
}

func revoke(regions []region) {
	t := regions[0].T
	peers := regions[0].forward("pod/"+storeName+"-"+regions[0].dataCenter()+"-cc-0", contract.DefaultHTTPPort)
	plugin(t, regions, "untrust", regions[1].name, "--yes")
	began := time.Now()
	for readPeer(t, peers, regions[1].dataCenter()).LinksUp > 0 {
		if time.Since(began) > kube.Patience {
			t.Fatal("links to the revoked region stay")
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("the first coordinator has no link to the revoked region %.1f s after the command has ended",
		time.Since(began).Seconds())
	for _, r := range regions {
		r.awaitConditions("False", "PeersConnected")
	}
	plugin(t, regions, "trust", "--readmit", "--yes")
}

// readPeer returns what a first coordinator, at the address of its HTTP server, reports of another data center.
func readPeer(t *testing.T, address, dataCenter string) contract.Peer {
	t.Helper()
	resp, err := http.Get("http://" + address + contract.PathReady)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var ready contract.Readiness
	if err := json.NewDecoder(resp.Body).Decode(&ready); err != nil {
		t.Fatal(err)
	}
	for _, p := range ready.Peers {
		if p.DataCenter == dataCenter {
			return p
		}
	}
	t.Fatalf("no report about %s: %+v", dataCenter, ready)
	return contract.Peer{}
}
