package charts_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/controllers/command"
	"github.com/causalstore/causalstore/e2e/apiserver"
	"github.com/causalstore/causalstore/e2e/binaries"
)

// kubectl runs kubectl from the test binaries, or else from PATH.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "kubectl", args...)
	if f, err := binaries.Find(t.Context(), "kubectl"); err == nil {
		if cmd, err = f.Command("kubectl", args...); err != nil {
			t.Fatal(err)
		}
	} else if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("kubectl is not installed; install it, or run `make kubernetes`")
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// manifests returns the objects of both ways to install, Helm and kustomize.
func manifests(t *testing.T) map[string]string {
	t.Helper()
	chart, err := helm(t, "template", "causalstore-operator", "causalstore", "--namespace", "causalstore-system",
		"--kube-version", kubeVersion, "--set",
		"region=local")
	if err != nil {
		t.Fatal(chart)
	}
	return map[string]string{"helm": chart,
		"kustomize": kubectl(t, "kustomize", filepath.Join("..", "config", "default"))}
}

// each calls f for each document of a kind.
func each[T any](t *testing.T, text, kind string, f func(*T)) {
	t.Helper()
	n := 0
	for _, doc := range strings.Split("\n"+text, "\n---\n") {
		var head metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatal(err)
		}
		if head.Kind != kind {
			continue
		}
		o := new(T)
		if err := yaml.UnmarshalStrict([]byte(doc), o); err != nil {
			t.Fatal(err)
		}
		f(o)
		n++
	}
	if n == 0 {
		t.Errorf("the manifests have no %s", kind)
	}
}

// TestHelmAndKustomizeInstallTheSameWebhook compares all but names.
func TestHelmAndKustomizeInstallTheSameWebhook(t *testing.T) {
	hooks := map[string][]admissionv1.MutatingWebhook{}
	for name, text := range manifests(t) {
		var services []string
		each(t, text, "Service", func(s *corev1.Service) {
			for _, p := range s.Spec.Ports {
				if p.Name == "webhook" {
					services = append(services, s.Namespace+"/"+s.Name)
				}
			}
		})
		each(t, text, "MutatingWebhookConfiguration", func(c *admissionv1.MutatingWebhookConfiguration) {
			for i := range c.Webhooks {
				to := c.Webhooks[i].ClientConfig.Service
				if len(services) != 1 || services[0] != to.Namespace+"/"+to.Name {
					t.Errorf("%s: the webhook is at Service %s/%s, and the manifests have %v", name, to.Namespace,
						to.Name, services)
				}
				to.Name = ""
			}
			hooks[name] = c.Webhooks
		})
	}
	if d := cmp.Diff(hooks["helm"], hooks["kustomize"]); d != "" {
		t.Errorf("(-helm +kustomize)\n%s", d)
	}
}

// TestTheBinaryAcceptsTheArgumentsInTheManifests covers the operator and the pod of helm test.
func TestTheBinaryAcceptsTheArgumentsInTheManifests(t *testing.T) {
	accepts := func(name string, args []string) {
		t.Helper()
		cmd, rest, err := command.NewOperatorCommand().Find(args[1:])
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateRequiredFlags()
		}
		if err != nil {
			t.Errorf("%s: causalstore %s: %v", name, strings.Join(args, " "), err)
		}
	}
	for name, text := range manifests(t) {
		each(t, text, "Deployment", func(d *appsv1.Deployment) {
			accepts(name, d.Spec.Template.Spec.Containers[0].Args)
		})
		if name == "helm" {
			each(t, text, "Pod", func(p *corev1.Pod) { accepts(name, p.Spec.Containers[0].Args) })
		}
	}
}

// TestKustomizeInstallsOnARealAPIServer applies the manifests twice, as an upgrade does.
func TestKustomizeInstallsOnARealAPIServer(t *testing.T) {
	config := apiserver.ForTest(t)
	kubeconfig := apiserver.Kubeconfig(t)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	// Helm refuses to install over a CRD that it does not own.
	defer kubectl(t, "--kubeconfig", kubeconfig, "delete", "-k", filepath.Join("..", "config", "crd"))
	for range 2 {
		kubectl(t, "--kubeconfig", kubeconfig, "apply", "--server-side", "--force-conflicts", "-k", filepath.Join("..",
			"config", "default"))
	}
	if _, err := client.AppsV1().Deployments("causalstore-system").Get(t.Context(), "causalstore-operator",
		metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(),
		"causalstore-operator",
		metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
