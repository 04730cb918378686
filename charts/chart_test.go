// Package charts_test checks the Helm chart: what it renders, installs and alerts on.
package charts_test

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/e2e/apiserver"
	"github.com/causalstore/causalstore/e2e/binaries"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

var rewrite = flag.Bool("rewrite", false, "write what the chart renders to the golden files")

// kubeVersion is the Kubernetes version that the chart is rendered for.
const kubeVersion = "1.36.3"

// readCharts reads all files that helm reads, so that tests run again when one has changed.
var readCharts = sync.OnceValue(func() error {
	return filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			_, err = os.ReadFile(path)
		}
		return err
	})
})

func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if err := readCharts(); err != nil {
		t.Fatal(err)
	}
	program, err := binaries.Helm(t.Context())
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

func TestTheChartRendersTheGoldenFiles(t *testing.T) {
	for name, set := range map[string]string{
		"default":      "region=us-east-1",
		"everything":   "region=us-east-1,image.repository=registry.example.com/causalstore,image.tag=v1,metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true,metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true,imagePullSecrets[0].name=pull,nodeSelector.pool=system,injection.certificates.provider=CertManager,injection.certificates.issuerRef.kind=ClusterIssuer,injection.certificates.issuerRef.name=internal,test.store=shop/orders,injection.failurePolicy=Fail",
		"restricted":   "region=us-east-1,watchNamespaces={shop,web},limits.images={registry.example.com/causalstore/,redis:},limits.nodeLabels={pool},limits.tolerations={dedicated},limits.priorityClasses={important},limits.labels={team},limits.annotations={example.com/}",
		"operated":     "region=us-east-1,image.tag=20260102,etcd.image.repository=registry.example.com/etcd,etcd.image.tag=36,priorityClassName=important,podLabels.team=data,serviceAccount.annotations.example\\.com/role=causalstore,extraEnv[0].name=HTTPS_PROXY,extraEnv[0].value=http://proxy.example.com,extraArgs={--log-format=text},metrics.authentication=true,metrics.serviceMonitor.enabled=true,networkPolicy.enabled=true,networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring",
		"cert-manager": "region=us-east-1,injection.certificates.provider=CertManager,trust.domain=us.example.com,trust.issuer.name=region-ca",
	} {
		t.Run(name, func(t *testing.T) {
			out, err := helm(t, "template", "causalstore", "causalstore", "--namespace", "causalstore-system",
				"--kube-version",
				kubeVersion, "--set", set)
			if err != nil {
				t.Fatal(out)
			}
			got := withoutCRD(t, out)
			golden := filepath.Join("testdata", name+".yaml")
			if *rewrite {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("the chart renders something else (-want +got); if that is intended, run with -rewrite:\n%s",
					d)
			}
		})
	}
}

// withoutCRD removes the generated CRD, which is long, and checks the annotation that the chart adds to it.
func withoutCRD(t *testing.T, out string) string {
	t.Helper()
	var rest []string
	found := false
	for _, doc := range strings.Split(out, "\n---\n") {
		var o struct {
			Kind     string
			Metadata struct{ Annotations map[string]string }
		}
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		if o.Kind != "CustomResourceDefinition" {
			rest = append(rest, doc)
			continue
		}
		if found = true; o.Metadata.Annotations["helm.sh/resource-policy"] != "keep" {
			t.Error("uninstalling the release would delete the CRD, and with it every store")
		}
	}
	if !found {
		t.Error("the chart has no CRD")
	}
	return strings.Join(rest, "\n---\n")
}

func TestTheChartPassesLintAndRejectsInvalidValues(t *testing.T) {
	if out, err := helm(t, "lint", "--strict", "causalstore", "--kube-version", kubeVersion, "--set",
		"region=us-east-1"); err != nil {
		t.Errorf("lint: %s", out)
	}
	for set, says := range map[string]string{
		"replicas=1":                             "/region",
		"region=US East":                         "/region",
		"region=a,replicas=0":                    "/replicas",
		"region=a,watchNamespaces={Shop}":        "/watchNamespaces/0",
		"region=a,limits.images={a b}":           "/limits/images/0",
		"region=a,injection.failurePolicy=Never": "/injection/failurePolicy",
		"region=a,image.pullPolicy=Maybe":        "/image/pullPolicy",
		"region=a,edge.image.tag=":               "/edge/image/tag",
		"region=a,edge.replicas=3":               "replicas",
		"region=a,extraArgs={log-level=debug}":   "/extraArgs/0",
		"region=a,priorityClassName=A":           "/priorityClassName",
		"region=a,reploicas=3":                   "reploicas",
		"region=a,metrics.serviceMonitor=1":      "/metrics/serviceMonitor",
		"region=a,test.store=orders":             "/test/store",

		"region=a,metrics.prometheusRule.runbookBaseUrl=docs": "/metrics/prometheusRule/runbookBaseUrl",

		"region=a,injection.certificates.provider=Maybe":       "/injection/certificates/provider",
		"region=a,injection.certificates.issuerRef.kind=Maybe": "/injection/certificates/issuerRef",
	} {
		out, err := helm(t, "template", "x", "causalstore", "--kube-version", kubeVersion, "--set", set)
		if err == nil || !strings.Contains(out, says) {
			t.Errorf("--set %s: %v, want an error that names %s:\n%s", set, err, says, out)
		}
	}
}

func TestTheOperatorHasAnImageOfEdgesUnlessItIsTakenAway(t *testing.T) {
	for set, want := range map[string]string{
		"injection.enabled=true": "--edge-image=envoyproxy/envoy:distroless-v1.40.0\n",
		"edge.image.repository=registry.example.com/envoy,edge.image.tag=v1": "--edge-image=registry.example.com/envoy:v1\n",
		"edge.image.repository=": "",
	} {
		out := template(t, set)
		if has := strings.Contains(out, "--edge-image"); has != (want != "") || !strings.Contains(out, want) {
			t.Errorf("--set %s: want %q in\n%s", set, want, out)
		}
	}
}

// TestTheChartInstallsAndUpgradesAndKeepsTheCRDWhenUninstalled runs helm against a real API server, where no pod runs.
func TestTheChartInstallsAndUpgradesAndKeepsTheCRDWhenUninstalled(t *testing.T) {
	config := apiserver.ForTest(t)
	t.Setenv("KUBECONFIG", apiserver.Kubeconfig(t))
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range []string{
		"install causalstore causalstore --create-namespace --set region=local,metrics.dashboard.enabled=true",
		"upgrade causalstore causalstore --set region=local,injection.enabled=false",
		"uninstall causalstore",
	} {
		step := strings.Fields(line)
		out, err := helm(t, append(step, "--namespace", "causalstore-system")...)
		if err != nil {
			t.Fatalf("helm %s: %v\n%s", step[0], err, out)
		}
		if i == 0 && !strings.Contains(out, "helm test causalstore --namespace causalstore-system") {
			t.Errorf("the notes do not name helm test:\n%s", out)
		}
		// The API server serves a new resource a moment after its CRD exists.
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			_, err := client.Discovery().ServerResourcesForGroupVersion("causalstore.io/v1alpha1")
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("after helm %s the resource is not served: %v", step[0], err)
			}
		}
	}
	if all, err := client.AppsV1().Deployments("causalstore-system").List(t.Context(),
		metav1.ListOptions{}); err != nil || len(all.Items) > 0 {
		t.Errorf("%d Deployments are left (%v)", len(all.Items), err)
	}
}

func TestTheChartHasTheGeneratedCRDAndRole(t *testing.T) {
	for copied, generated := range map[string]string{
		"files/crd.yaml":  "config/crd/bases/causalstore.io_causalstores.yaml",
		"files/role.yaml": "config/rbac/role.yaml",
	} {
		a, errA := os.ReadFile(filepath.Join("causalstore", copied))
		b, errB := os.ReadFile(filepath.Join("..", generated))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("charts/causalstore/%s differs from %s (%v, %v); run make generate", copied, generated, errA, errB)
		}
	}
}
