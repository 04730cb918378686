//go:build linux

package policy

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// readCluster reads the pods and namespaces of testdata.
func readCluster(t *testing.T) Cluster {
	t.Helper()
	text, err := os.ReadFile("testdata/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c Cluster
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		if kind.Kind == "Namespace" {
			c.Namespaces = append(c.Namespaces, parse[corev1.Namespace](t, document))
		} else {
			c.Pods = append(c.Pods, parse[corev1.Pod](t, document))
		}
	}
	return c
}

func parse[T any](t *testing.T, document string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	return object
}

func TestPoliciesBecomeRulesOfANode(t *testing.T) {
	datadriven.RunTest(t, "testdata/rules.txt", func(t *testing.T, d *datadriven.TestData) string {
		c := readCluster(t)
		for document := range strings.SplitSeq(d.Input, "\n---\n") {
			if document = strings.TrimSpace(document); document != "" {
				c.Policies = append(c.Policies, parse[networkingv1.NetworkPolicy](t, document))
			}
		}
		script, err := Render("node-1", c)
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(c.Pods)
		slices.Reverse(c.Policies)
		if again, err := Render("node-1", c); err != nil || again != script {
			t.Errorf("in another order (%v):\n%s", err, again)
		}
		checkSyntax(t, script)
		return script
	})
}

// checkSyntax lets the kernel check a script, in a network of its own, where that is possible.
func checkSyntax(t *testing.T, script string) {
	t.Helper()
	if _, err := exec.LookPath("nft"); err != nil || os.Geteuid() != 0 {
		return
	}
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("nft refuses the rules: %v: %s\n%s", err, output, script)
	}
}

func TestAnInvalidSelectorIsReported(t *testing.T) {
	c := readCluster(t)
	c.Policies = []*networkingv1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "bad"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}},
			}}}}
	if _, err := Render("node-1", c); err == nil || !strings.Contains(err.Error(), "Near") {
		t.Errorf("the error is %v", err)
	}
}
