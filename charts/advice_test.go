package charts_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/command"
	"github.com/causalstore/causalstore/e2e/apiserver"
)

// warnings are those of an API server.
type warnings struct {
	sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.Lock()
	defer w.Unlock()
	w.texts = append(w.texts, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() []string {
	w.Lock()
	defer w.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

// A store whose coordinators have one member each is accepted, with a warning that says what that means with scope
// DataCenter, which is the default.
func TestAStoreWithOneMemberIsAcceptedWithAWarning(t *testing.T) {
	config := rest.CopyConfig(apiserver.ForTest(t))
	defer installCRD(t)()
	_, _, uninstall := install(t, "advice", "advised", "region=local")
	defer uninstall()
	var warned warnings
	config.WarningHandler = &warned
	scheme, err := command.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	const want = "here: with session.scope DataCenter and coordinators.members 1, reads and writes wait"
	for name, c := range map[string]struct {
		change func(*v1alpha1.CausalStoreSpec)
		warns  bool
	}{
		"as-by-default": {func(*v1alpha1.CausalStoreSpec) {}, true},
		"another-scope": {func(s *v1alpha1.CausalStoreSpec) { s.Session.Scope = v1alpha1.ScopePod }, false},
		"two-members": {func(s *v1alpha1.CausalStoreSpec) {
			s.DataCenters[0].Coordinators.Members, s.DataCenters[0].Etcd.Image = 2, "example.com/etcd:v3"
		}, false},
		"another-region": {func(s *v1alpha1.CausalStoreSpec) { s.DataCenters[0].Region = "elsewhere" }, false},
		"one-zone": {func(s *v1alpha1.CausalStoreSpec) {
			s.Placement, s.DataCenters[0].Zones = v1alpha1.PlacementSingleZone, v1alpha1.Zones{}
		}, false},
	} {
		eventually(t, name, func(ctx context.Context) error {
			s := &v1alpha1.CausalStore{}
			if err := yaml.UnmarshalStrict([]byte(`
spec:
  storage: {engine: Embedded}
  dataCenters: [{name: here, region: local, zones: {frontend: [a], backend: [b]}}]
  rings: [{name: only, dataCenters: [here]}]`), s); err != nil {
				return err
			}
			s.Namespace, s.Name = metav1.NamespaceDefault, name
			c.change(&s.Spec)
			warned.take()
			if err := admin.Create(ctx, s); err != nil {
				return err
			}
			got := warned.take()
			if err := admin.Delete(ctx, s); err != nil {
				return err
			}
			if slices.ContainsFunc(got, func(w string) bool { return strings.Contains(w, want) }) != c.warns {
				return fmt.Errorf("the warnings are %q", got)
			}
			return nil
		})
	}
}
