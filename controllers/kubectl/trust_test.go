package kubectl

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/controllers/trust"
)

// testOperator is the keeper of an operator's authority, which a test makes look when it wants.
type testOperator struct {
	*testing.T
	keeper *trust.Keeper
	ahead  time.Duration
}

// addOperator adds the operator of a region in a namespace of its own.
func (h *testCluster) addOperator(t *testing.T, region string) *testOperator {
	t.Helper()
	o := &testOperator{T: t}
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "operator-" + region}})
	o.keeper = &trust.Keeper{Client: h.k, Uncached: h.k, Namespace: "operator-" + region, Name: "authority",
		Region: region,
		Now:    func() time.Time { return time.Now().Add(o.ahead) }}
	o.keeper.Lead()
	o.look()
	return o
}

// share creates a store that two regions have in common.
func (h *testCluster) share(t *testing.T, regions ...string) *v1alpha1.CausalStore {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "two-regions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := &v1alpha1.CausalStore{}
	if err := yaml.UnmarshalStrict(b, s); err != nil {
		t.Fatal(err)
	}
	s.Namespace, s.Name = "shop", "shared"
	for i := range s.Spec.DataCenters {
		s.Spec.DataCenters[i].Region = regions[min(i, 1)]
	}
	h.create(s)
	return s
}

// look makes the operator read and write what is due, and returns what it knows.
func (o *testOperator) look() *trust.State {
	o.Helper()
	s, err := o.keeper.Refresh(o.Context())
	if err != nil {
		o.Fatal(err)
	}
	return s
}

// state returns the state of a region in the eyes of an operator.
func (o *testOperator) state(region string) string {
	o.Helper()
	if _, _, err := o.look().Of(region); err != nil {
		return err.Error()
	}
	return "trusted"
}

// lookOften makes the operator look until stop is called.
func (o *testOperator) lookOften() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
				if _, err := o.keeper.Refresh(o.Context()); err != nil {
					o.Error(err)
					return
				}
			}
		}
	}()
	return func() { close(done); <-ended }
}

// answer runs a command whose user types an answer.
func (h *testCluster) answer(text string, line ...string) (string, error) {
	h.Helper()
	var out bytes.Buffer
	cmd := NewCommand()
	cmd.SetArgs(append([]string{line[0], "--kubeconfig", h.kubeconfig}, line[1:]...))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetIn(strings.NewReader(text))
	cmd.SilenceUsage = true
	err := cmd.ExecuteContext(h.Context())
	return out.String(), err
}

// testTrust follows two regions: trust, revocation, trust again, and a new authority.
func (h *testCluster) testTrust(t *testing.T) {
	h.expectError("no operator of the cluster has published an authority", "trust")
	us := h.addOperator(t, "us")
	h.expectError("only us (namespace operator-us) was found; give a --context for each cluster", "trust", "--yes")
	eu := h.addOperator(t, "eu")
	fingerprint := trust.Fingerprint(us.look().Issuing.Certificate())

	out, err := h.answer("no\n", "trust")
	if err == nil || !strings.Contains(err.Error(), "nothing was changed") || !strings.Contains(out, fingerprint) ||
		!strings.Contains(out, "eu will trust us") {
		t.Errorf("%v\n%s", err, out)
	}
	if is := us.state("eu"); is != trust.ErrUnknownRegion.Error() {
		t.Errorf("without consent: %s", is)
	}
	if out, err := h.answer("yes\n", "trust"); err != nil || !strings.Contains(out, "written") {
		t.Errorf("%v\n%s", err, out)
	}
	if us.state("eu") != "trusted" || eu.state("us") != "trusted" {
		t.Errorf("us: %s, eu: %s", us.state("eu"), eu.state("us"))
	}
	h.expectOutput("nothing to do: the operators of all 2 regions trust each other", "trust")
	if strings.Contains(out, "PRIVATE") {
		t.Error("a private key is printed")
	}

	h.expectError("trusts a region asia", "untrust", "asia", "--yes")
	h.expectOutput("us (namespace operator-us) will not trust eu", "untrust", "eu", "--yes", "--operator-namespace",
		"operator-us")
	if is := us.state("eu"); is != trust.ErrRevokedRegion.Error() || eu.state("us") != "trusted" {
		t.Errorf("us: %s, eu: %s", is, eu.state("us"))
	}
	var peers corev1.ConfigMapList
	if err := h.k.List(t.Context(), &peers, client.InNamespace("operator-us"),
		client.MatchingLabels{trust.Label: trust.KindPeer}); err != nil || len(peers.Items) != 1 {
		t.Fatalf("%d ConfigMaps: %v", len(peers.Items), err)
	}
	if err := h.k.Delete(t.Context(), &peers.Items[0]); err != nil {
		t.Fatal(err)
	}
	if is := us.state("eu"); is != trust.ErrRevokedRegion.Error() {
		t.Errorf("after the ConfigMap is gone: %s", is)
	}
	h.expectError("--readmit trusts it again", "trust", "--yes")
	h.expectOutput("us will trust eu again", "trust", "--yes", "--readmit")
	if is := us.state("eu"); is != "trusted" {
		t.Errorf("after --readmit: %s", is)
	}
	h.testWrongBundle(t, us, eu)

	shared := h.share(t, "us", "eu")
	name := client.ObjectKeyFromObject(shared)
	stop := us.lookOften()
	out, err = h.answer("", "rotate-ca", "us", "--yes", "--operator-namespace", "operator-us")
	for _, want := range []string{"a new authority will be made", "and written to no other region",
		"issues when it is accepted everywhere", "store shop/shared: its parts have not been asked yet"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("want %q, got %v\n%s", want, err, out)
		}
	}
	const waits = "data center paris of region eu does not accept it yet"
	us.keeper.Report(name, trust.Report{Issuing: us.look().Issuing, Next: us.look().Next, Waits: []string{waits}})
	us.look()
	h.expectOutput(waits, "rotate-ca", "us", "--yes", "--operator-namespace", "operator-us")
	h.expectOutput("will be written to eu", "rotate-ca", "us", "--yes")
	eu.look()
	h.expectOutput(waits, "rotate-ca", "us", "--yes")
	if got := trust.Fingerprint(us.look().Issuing.Certificate()); got != fingerprint {
		t.Errorf("%s issues before all parts accept it", got)
	}
	var stores v1alpha1.CausalStoreList // other tests have some in that region
	if err := h.k.List(t.Context(), &stores); err != nil {
		t.Fatal(err)
	}
	next := us.look().Next
	for i := range stores.Items {
		us.keeper.Report(client.ObjectKeyFromObject(&stores.Items[i]), trust.Report{Next: next})
	}
	us.look()
	stop()
	if got := trust.Fingerprint(us.look().Issuing.Certificate()); got == fingerprint {
		t.Error("the old authority still issues")
	}
	h.expectOutput("Nothing is left to do until then", "rotate-ca", "us", "--yes")
	us.keeper.Report(name, trust.Report{Issuing: us.look().Issuing,
		RefusedBy: []string{"data center paris of region eu"}})
	us.look()
	h.expectOutput(
		"is not trusted by these, as its parts hear from them:\n  store shop/shared: data center paris of region eu\n",
		"trust", "--yes")
	h.expectOutput("store shop/shared: data center paris of region eu\n", "rotate-ca", "us", "--yes")
	us.keeper.Report(name, trust.Report{Issuing: us.look().Issuing})
	us.ahead = 9 * 24 * time.Hour
	second := us.look().Issuing
	stop = us.lookOften()
	h.expectOutput("is accepted everywhere", "rotate-ca", "us", "--yes")
	h.expectOutput("will issue at once", "rotate-ca", "us", "--yes", "--force")
	stop()
	if us.look().Issuing.Is(second) {
		t.Error("a forced rotation waits")
	}
	us.ahead = 18 * 24 * time.Hour
	us.look()
	if err := h.k.Delete(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	h.expectOutput("eu will trust us", "trust", "--yes")
	eu.look()
	if _, bundle, err := eu.look().Of("us"); err != nil || strings.Count(bundle, "BEGIN") != 1 {
		t.Errorf("eu still trusts the old authority: %v", err)
	}
}

// testWrongBundle follows a bundle of another authority that somebody has written for eu into us, with a sequence that
// eu never reaches.
func (h *testCluster) testWrongBundle(t *testing.T, us, eu *testOperator) {
	t.Helper()
	domain, right, err := eu.look().Of("eu")
	if err != nil {
		t.Fatal(err)
	}
	other, err := authority.NewAuthority(domain, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	wrong := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "operator-us", Name: "wrong",
		Labels: map[string]string{trust.Label: trust.KindPeer}},
		Data: trust.Entry{Region: "eu", TrustDomain: domain, Sequence: 1 << 40,
			Bundle: string(other.CertificatePEM())}.Data()}
	h.create(wrong)
	bundle := func() string {
		t.Helper()
		_, b, err := us.look().Of("eu")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if bundle() == right {
		t.Fatal("the wrong bundle was not accepted")
	}
	h.expectError(
		"has accepted another bundle of eu (namespace operator-eu), with sequence 1099511627776, and does not "+
			"replace it", "trust", "--yes")
	h.expectError(
		"ConfigMap wrong of us (namespace operator-us) is about the same trust domain, and would be accepted again; "+
			"delete it first", "trust", "--yes", "--readmit")
	if err := h.k.Delete(t.Context(), wrong); err != nil {
		t.Fatal(err)
	}
	h.expectError("--readmit replaces the other", "trust", "--yes")
	if bundle() == right {
		t.Error("the bundle was replaced without --readmit")
	}
	h.expectOutput("us will trust eu again", "trust", "--yes", "--readmit")
	if bundle() != right {
		t.Error("after --readmit, us has the wrong bundle")
	}
	h.expectOutput("nothing to do", "trust", "--yes")
}
