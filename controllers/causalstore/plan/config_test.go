package plan_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/sidecar/process"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// Package process reads each file as in a pod, for each part that gets it, with the secrets in place.
func TestThePartsAcceptThePlannedConfiguration(t *testing.T) {
	for _, c := range []struct{ file, region, config string }{
		{"one.yaml", "local", "try-here"}, {"regions.yaml", "us-east", "orders-us-east-1"}} {
		p := planned(t, observed(t, c.file, c.region))
		dir := t.TempDir()
		keys := named[*corev1.Secret](t, p, plan.KeysName(strings.SplitN(c.config, "-", 2)[0]))
		for name, value := range keys.Data {
			if err := os.WriteFile(filepath.Join(dir, name), value, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for name, text := range named[*corev1.ConfigMap](t, p, c.config).Data {
			text = strings.ReplaceAll(text, "/etc/causalstore-keys", dir)
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		parts := filepath.Join(dir, "causalstore.yaml")
		for _, part := range []topology.Part{topology.Coordinator, topology.Middleman, topology.Sidecar} {
			set, err := process.Source{Path: parts, Override: allowPlaintext(t, p, part)}.Load(part)
			if err != nil {
				t.Errorf("%s, %s: %v", c.file, part, err)
			} else if part != topology.Sidecar && set.Config.Listen.GRPC != fmt.Sprintf(":%d", plan.PortParts) {
				t.Errorf("%s, %s: it would listen at %q; the port of the pods is %d", c.file, part, set.Config.Listen.GRPC,
					plan.PortParts)
			}
		}
		front, err := process.Source{Path: filepath.Join(dir, "front.yaml")}.Load(topology.Sidecar)
		if err != nil {
			t.Error(err)
		} else if front.Config.Session.Scope != "Connection" {
			t.Errorf("the front has scope %s; its clients must not share a session", front.Config.Session.Scope)
		}
	}
}

// allowPlaintext returns what the arguments of a part change in its configuration.
func allowPlaintext(t *testing.T, p plan.Plan, part topology.Part) func(*contract.Config) {
	t.Helper()
	for _, o := range p.Apply {
		s, ok := o.(*appsv1.StatefulSet)
		if !ok {
			continue
		}
		for _, c := range s.Spec.Template.Spec.Containers {
			if len(c.Args) > 0 && c.Args[0] == part.String() && slices.Contains(c.Args, "--allow-plaintext") {
				return func(c *contract.Config) { c.AllowPlaintext = true }
			}
		}
	}
	return nil
}

// The addresses of this region are those of the pods of the StatefulSets, below the Service that they name.
func TestAddressesAreHostNamesThatTheServicesPublish(t *testing.T) {
	p := planned(t, observed(t, "regions.yaml", "us-east"))
	var names []string
	for _, o := range p.Apply {
		if s, ok := o.(*appsv1.StatefulSet); ok {
			for i := range *s.Spec.Replicas {
				names = append(names, fmt.Sprintf("%s-%d.%s.%s.svc:%d", s.Name, i, s.Spec.ServiceName, s.Namespace, plan.PortParts))
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
	if got, want := c.Addresses["eu-west-1"].Middlemen[0], "orders-eu-west-1-shard-0-0.edge.eu-west-1.example.com:15443"; got != want {
		t.Errorf("the address of a part of another region is %s, want %s: a name in front of the edge", got, want)
	}
}
