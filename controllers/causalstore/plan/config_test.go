package plan_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/trust"
	"github.com/causalstore/causalstore/sidecar/identity"
	"github.com/causalstore/causalstore/sidecar/process"
	"github.com/causalstore/causalstore/topology"
)

// pod is a folder with the files that a container of a part has.
type pod struct {
	*testing.T
	plan     plan.Plan
	in       plan.Observed
	by       *authority.Authority
	config   string // name of the ConfigMap
	rename   *strings.Replacer
	dir, tls string
}

// newPod writes the files of a container that has the given Secret with certificates, and, for injected sidecars, of a
// data center in folders of its own.
func newPod(t *testing.T, in plan.Observed, by *authority.Authority, config, secret, folder string) *pod {
	t.Helper()
	p := &pod{T: t, plan: planned(t, in), in: in, by: by, config: config, dir: t.TempDir()}
	p.rename = strings.NewReplacer("/etc/causalstore-keys", p.dir, "/etc/causalstore-tls", p.dir+"/tls",
		"/etc/causalstore/", p.dir+"/")
	p.tls = filepath.Join(p.dir, "tls", folder)
	if err := os.MkdirAll(p.tls, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(p.dir, folder), 0o700); err != nil {
		t.Fatal(err)
	}
	keys := named[*corev1.Secret](t, p.plan, plan.KeysName(in.Store.Name))
	for name, value := range keys.Data {
		p.write(filepath.Join(p.dir, name), value)
	}
	for name, text := range named[*corev1.ConfigMap](t, p.plan, config).Data {
		p.write(filepath.Join(p.dir, folder, name), []byte(p.rename.Replace(text)))
	}
	secrets, err := plan.Certificates(in, p.plan.Record)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(secrets, func(s plan.CertificateSecret) bool { return s.Secret.Name == secret })
	if i < 0 {
		t.Fatalf("no Secret %s is planned", secret)
	}
	files, _, err := trust.StateOf(trust.OwnRoot(by)).Renew(t.Context(), nil, secrets[i].Identities, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range files {
		p.write(filepath.Join(p.tls, name), value)
	}
	return p
}

func (p *pod) write(file string, content []byte) {
	p.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		p.Fatal(err)
	}
}

// load reads a configuration as the part does, and checks that its peers accept its certificate in its role.
func (p *pod) load(file string, part topology.Part, role contract.Role, member string) contract.Config {
	p.Helper()
	set, err := process.Source{Path: filepath.Join(p.dir, file)}.Load(part)
	if err != nil {
		p.Fatalf("%s, %s: %v", p.config, part, err)
	}
	c := set.Config
	pair, err := tls.LoadX509KeyPair(c.TLS.Cert, c.TLS.Key)
	if err != nil {
		p.Fatalf("%s, %s: %v", p.config, part, err)
	}
	text, err := os.ReadFile(c.TLS.Trust)
	if err != nil {
		p.Fatal(err)
	}
	known, err := identity.ParseTrust(text)
	if err != nil {
		p.Fatalf("%s, %s: %v", p.config, part, err)
	}
	peer, err := known.Verify([]*x509.Certificate{pair.Leaf}, time.Now(), x509.ExtKeyUsageClientAuth)
	if err != nil || peer.Identity.Role != role || peer.Identity.Member != member ||
		peer.Identity.DataCenter != c.DataCenter {
		p.Errorf("%s, %s: peers take it for %s: %v", p.config, part, peer.Identity, err)
	}
	return c
}

// Package process reads each file as in a pod, for each part that gets it, with the secrets in place.
func TestThePartsAcceptThePlannedConfiguration(t *testing.T) {
	for _, c := range []struct{ file, region, dc string }{{"one.yaml", "local", "here"},
		{"regions.yaml", "us-east", "us-east-1"}} {
		in := observed(t, c.file, c.region)
		authorities := map[string]*authority.Authority{}
		for region, domain := range in.Trust.Domains {
			a, err := authority.NewAuthority(domain, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			authorities[region], in.Trust.Bundles[domain] = a, string(a.CertificatePEM())
		}
		config := plan.DataCenterName(in.Store.Name, c.dc)
		for part, role := range map[topology.Part]contract.Role{topology.Coordinator: contract.RoleCoordinator,
			topology.Middleman: contract.RoleMiddleman} {
			p := newPod(t, in, authorities[c.region], config, fmt.Sprintf("%s-%s-tls", config, role), "")
			if got := p.load(plan.PartsFile, part, role, "0"); got.Listen.GRPC != fmt.Sprintf(":%d", plan.PortParts) {
				t.Errorf("%s, %s: it would listen at %q; the port of the pods is %d", c.file, part, got.Listen.GRPC,
					plan.PortParts)
			}
		}
		front := newPod(t, in, authorities[c.region], config, plan.SidecarCertificatesName(in.Store.Name, c.dc), "")
		if got := front.load("front.yaml", topology.Sidecar, contract.RoleSidecar,
			in.Store.Namespace); got.Session.Scope != contract.ScopeConnection {
			t.Errorf("the front has scope %s; its clients must not share a session", got.Session.Scope)
		}
		if c.file == "one.yaml" {
			in.Store.Spec.Session.Scope = v1alpha1.ScopeDataCenter
			local := newPod(t, in, authorities[c.region], config, plan.SidecarCertificatesName(in.Store.Name, c.dc), "")
			got := local.load("front.yaml", topology.Sidecar, contract.RoleSidecar, in.Store.Namespace)
			if s := got.Session; s.Scope != contract.ScopeDataCenter || !s.PerConnection || s.Reads != "Snapshot" {
				t.Errorf("with scope DataCenter the front has the sessions %+v", s)
			}
			if n := *got.NearCopies.MaxBytes; n != contract.DefaultNearBytes {
				t.Errorf("with scope DataCenter the front keeps %d bytes of near copies", n)
			}
			in.Store.Spec.NearCopies = &v1alpha1.NearCopies{MaxBytes: "0"}
			without := newPod(t, in, authorities[c.region], config,
				plan.SidecarCertificatesName(in.Store.Name, c.dc), "")
			got = without.load("front.yaml", topology.Sidecar, contract.RoleSidecar, in.Store.Namespace)
			if n := *got.NearCopies.MaxBytes; n != 0 {
				t.Errorf("without near copies the front keeps %d bytes of them", n)
			}
			in.Store.Spec.NearCopies = nil
		}
		injected := newPod(t, in, authorities[c.region], config, plan.SidecarCertificatesName(in.Store.Name, c.dc),
			c.dc)
		injected.load(filepath.Join(c.dc, plan.SidecarFile), topology.Sidecar, contract.RoleSidecar, in.Store.Namespace)
	}
}

// The addresses of this region are those of the pods of the StatefulSets, below the Service that they name.
func TestAddressesAreHostNamesThatTheServicesPublish(t *testing.T) {
	p := planned(t, observed(t, "regions.yaml", "us-east"))
	var names []string
	for _, o := range p.Apply {
		if s, ok := o.(*appsv1.StatefulSet); ok {
			for i := range *s.Spec.Replicas {
				names = append(names, fmt.Sprintf("%s-%d.%s.%s.svc:%d", s.Name, i, s.Spec.ServiceName, s.Namespace,
					plan.PortParts))
			}
		}
	}
	c, err := contract.ParseConfig([]byte(named[*corev1.ConfigMap](t, p, "orders-us-east-1").Data["causalstore.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	here := c.Addresses["us-east-1"]
	addresses := slices.Concat(here.Coordinators, here.Caches, here.Middlemen)
	slices.Sort(addresses)
	slices.Sort(names)
	if !slices.Equal(addresses, names) {
		t.Errorf("the addresses of the parts are\n%q\nand the names of the pods are\n%q", addresses, names)
	}
}
