package charts_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/command"
	"github.com/causalstore/causalstore/e2e/apiserver"
)

func TestAReleaseKeepsTheRegionOfItsStoresAndRefusesMembersWithoutEtcd(t *testing.T) {
	config := apiserver.ForTest(t)
	t.Setenv("KUBECONFIG", apiserver.Kubeconfig(t))
	scheme, err := command.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	run := func(args string) (string, error) {
		return helm(t, strings.Fields(args+" --namespace causalstore-region")...)
	}
	if out, err := run("install causalstore causalstore --create-namespace --set region=local"); err != nil {
		t.Fatal(out)
	}
	defer func() {
		if out, err := run("uninstall causalstore"); err != nil {
			t.Error(out)
		}
	}()
	b, err := os.ReadFile(filepath.Join("..", "config", "samples", "one-data-center.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	store := &v1alpha1.CausalStore{}
	if err := yaml.UnmarshalStrict(b, store); err != nil {
		t.Fatal(err)
	}
	store.Namespace = "default"
	store.Spec.DataCenters[0].Coordinators.Members = 2
	const refusal = "data centers here: several members need an etcd, and the operator of region local has " +
		"no image for it"
	eventually(t, "members without an image for etcd are refused", func(ctx context.Context) error {
		try := store.DeepCopy()
		err := c.Create(ctx, try, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), refusal) {
			return fmt.Errorf("%w, want %s", err, refusal)
		}
		return nil
	})
	for what, change := range map[string]func(*v1alpha1.CausalStore){
		"an image of its own": func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Etcd.Image = "etcd:v3" },
		"another region":      func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Region = "elsewhere" },
		"one member":          func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Coordinators.Members = 1 },
	} {
		try := store.DeepCopy()
		if change(try); c.Create(t.Context(), try, client.DryRunAll) != nil {
			t.Errorf("%s: refused", what)
		}
	}
	store.Spec.DataCenters[0].Coordinators.Members = 1
	if err := c.Create(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	out, err := run("upgrade causalstore causalstore --set region=other")
	if err == nil ||
		!strings.Contains(out,
			"this release runs region local, and CausalStore default/try has data center here there") {
		t.Errorf("the region of a release with stores was changed: %v\n%s", err, out)
	}
	if out, err := run("upgrade causalstore causalstore --set region=local"); err != nil {
		t.Error(out)
	}
	if err := c.Delete(t.Context(), store, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	if out, err := run("upgrade causalstore causalstore --set region=other"); err != nil {
		t.Error(out)
	}
}
