package command

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/inject"
	"github.com/causalstore/causalstore/e2e/apiserver"
	"github.com/causalstore/causalstore/lab/ports"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

func TestTheOperatorCommandReconcilesAStoreAndShutsDownCleanly(t *testing.T) {
	config := apiserver.ForTest(t)
	apiserver.InstallCRDs(t, filepath.Join("..", "..", "config", "crd", "bases"))
	t.Setenv("KUBECONFIG", apiserver.Kubeconfig(t))
	health, hook, page := ports.ForTest(t), ports.ForTest(t), ports.ForTest(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	cmd := NewOperatorCommand()
	cmd.SetArgs([]string{"--region=local", "--image=causalstore:test", "--health-address=" + health,
		"--metrics-address=0", "--console-address=" + page,
		"--leader-namespace=default", "--log-level=error", "--webhook-configuration=injector",
		"--webhook-host=localhost", "--webhook-namespace=default",
		"--webhook-secret=webhook", "--webhook-port=" + strconv.Itoa(int(netip.MustParseAddrPort(hook).Port()))})
	go func() { ended <- cmd.ExecuteContext(ctx) }()

	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	none, url := admissionv1.SideEffectClassNone, "https://"+hook+inject.Path
	if err := c.Create(t.Context(),
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "injector"},
			Webhooks: []admissionv1.MutatingWebhook{{Name: "inject.causalstore.io",
				AdmissionReviewVersions: []string{"v1"},
				SideEffects:             &none,
				ClientConfig:            admissionv1.WebhookClientConfig{URL: &url}}}}); err != nil {
		t.Fatal(err)
	}
	sample, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "one-data-center.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	store := &v1alpha1.CausalStore{}
	if err := yaml.UnmarshalStrict(sample, store); err != nil {
		t.Fatal(err)
	}
	store.Namespace = "default"
	// The API server serves a new resource a moment after its CRD exists.
	await(t, ended, func() error { return client.IgnoreAlreadyExists(c.Create(t.Context(), store)) })
	service := &corev1.Service{}
	await(t, ended, func() error {
		return c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "try"}, service)
	})
	await(t, ended, func() error {
		answer, err := http.Get("http://" + page + "/stores/default/try/console/snapshot")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("the live page: %s", answer.Status)
		}
		return nil
	})
	if zone, err := trafficDistribution(config); err != nil || service.Spec.TrafficDistribution == nil ||
		*service.Spec.TrafficDistribution != zone {
		t.Errorf("the Service has trafficDistribution %v, want %s (%v)", service.Spec.TrafficDistribution, zone, err)
	}
	await(t, ended, func() error {
		a, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return err
		}
		defer func() { _ = a.Body.Close() }()
		if a.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz: %s", a.Status)
		}
		return nil
	})
	// The operator reconciles a store every 15 s; by then it has published its CA.
	await(t, ended, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(store), store); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(store.Status.Conditions, v1alpha1.ConditionInjectionReady) {
			return fmt.Errorf("injection is not ready: %v", store.Status.Conditions)
		}
		return nil
	})
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the operator ended: %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(store), store); err != nil || len(store.Finalizers) != 1 {
		t.Errorf("the store has finalizers %v (%v)", store.Finalizers, err)
	}
}

func TestMissingWebhookFlagsAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"": "needs --webhook-host",
		"--webhook-host=x": "either --webhook-secret with --webhook-namespace, or " +
			"--webhook-cert-dir",
		"--webhook-host=x --webhook-secret=s": "--webhook-secret needs " +
			"--webhook-namespace",
		"--webhook-host=x --webhook-secret=s --webhook-namespace=n --webhook-cert-dir=d": "not both",
	} {
		cmd := NewOperatorCommand()
		cmd.SetArgs(append([]string{"--region=a", "--image=b", "--webhook-configuration=c"}, strings.Fields(args)...))
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

func TestThePageIsNotServedToOtherPods(t *testing.T) {
	cmd := NewOperatorCommand()
	cmd.SetArgs([]string{"--region=a", "--image=b", "--console-address=:8082"})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	if err := cmd.ExecuteContext(t.Context()); err == nil ||
		!strings.Contains(err.Error(), `--console-address ":8082": the page has no authentication`) {
		t.Errorf("%v", err)
	}
}

func TestInvalidArgumentsOfRedirectAndVerifyAreRejected(t *testing.T) {
	for line, want := range map[string]string{
		"redirect --from=a --to=1.2.3.4:5":                   "--from \"a\": use an IPv4 address with a port",
		"redirect --from=1.2.3.4:5 --to=[::1]:5":             "--to \"[::1]:5\"",
		"redirect --to=1.2.3.4:5":                            `"from" not set`,
		"verify --region=a --namespace=b --store=orders":     "use namespace/name",
		"verify --region=a --namespace=b --selector=a=b=c=d": "--selector",
		"verify --region=a":                                  `"namespace" not set`,
	} {
		cmd := &cobra.Command{Use: "x", SilenceUsage: true, SilenceErrors: true}
		cmd.AddCommand(NewRedirectCommand(), newVerifyCommand())
		cmd.SetArgs(strings.Fields(line))
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// await waits until f succeeds. It fails if the operator ends first.
func await(t *testing.T, ended <-chan error, f func() error) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		err := f()
		if err == nil {
			return
		}
		select {
		case end := <-ended:
			t.Fatalf("the operator ended: %v", end)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
