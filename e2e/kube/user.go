// Package kube uses a cluster as people do: with kubectl, Helm and patience. The tests on real clusters share it.
package kube

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/e2e/binaries"
)

// Root is the root of the checkout, from the folder of a test.
var Root = filepath.Join("..", "..")

// OperatorNamespace is where tests install the operator.
const OperatorNamespace = "causalstore-system"

// Patience bounds every wait. A rolling update of a whole store, pod after pod, takes longest.
const Patience = 8 * time.Minute

// User works with kubectl and helm in one namespace.
type User struct {
	*testing.T
	Namespace string
	// Kubeconfig is the path of the file that names the cluster. If it is empty, the environment names it.
	Kubeconfig string
}

// In returns the same user in another namespace.
func (u User) In(namespace string) User { return User{u.T, namespace, u.Kubeconfig} }

// Kubectl runs a command that must succeed and returns its output.
func (u User) Kubectl(args ...string) string {
	u.Helper()
	out, err := u.Try("", args...)
	if err != nil {
		u.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Try runs kubectl with standard input and returns all output.
func (u User) Try(input string, args ...string) (string, error) {
	u.Helper()
	cmd, err := Kubectl(u.Context(), append([]string{"--namespace", u.Namespace}, args...)...)
	if err != nil {
		u.Fatal(err)
	}
	u.choose(cmd)
	return Output(cmd, input)
}

// choose makes a command use the cluster of the user.
func (u User) choose(cmd *exec.Cmd) {
	if u.Kubeconfig != "" {
		cmd.Env = append(os.Environ(), "KUBECONFIG="+u.Kubeconfig)
	}
}

// Output runs a command with standard input and returns all that it prints.
func Output(cmd *exec.Cmd, input string) (string, error) {
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &out
	err := cmd.Run()
	return strings.TrimSpace(out.String()), err
}

// Apply applies a manifest.
func (u User) Apply(manifest string) {
	u.Helper()
	if out, err := u.Try(manifest, "apply", "-f", "-"); err != nil {
		u.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// Helm runs a command that must succeed and returns its output.
func (u User) Helm(args ...string) string {
	u.Helper()
	program, err := binaries.Helm(u.Context())
	if err != nil {
		u.Fatal(err)
	}
	cmd := exec.CommandContext(u.Context(), program, append([]string{"--namespace", u.Namespace}, args...)...)
	cmd.Dir = Root
	u.choose(cmd)
	out, err := Output(cmd, "")
	if err != nil {
		u.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Await waits until check returns no problem. A failure shows the last one.
func (u User) Await(what string, check func() string) {
	u.Helper()
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for {
		last := check()
		if last == "" {
			return
		}
		select {
		case <-limit.C:
			u.Fatalf("timed out waiting for %s: %s\n%s", what, last, u.Diagnostics())
		case <-again.C:
		}
	}
}

// AwaitOutput waits until kubectl prints the wanted output.
func (u User) AwaitOutput(want string, args ...string) {
	u.Helper()
	u.Await("kubectl "+strings.Join(args, " "), func() string {
		out, err := u.Try("", args...)
		if err != nil || out != want {
			return fmt.Sprintf("got %q, want %q", out, want)
		}
		return ""
	})
}

// AwaitReady waits until a store is ready for its current spec.
func (u User) AwaitReady(store string) {
	u.Helper()
	u.Await("store "+store+" to be ready", func() string {
		out, err := u.Try("", "get", "causalstore", store, "-o",
			`jsonpath={.metadata.generation} {.status.observedGeneration} {.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Progressing")].status}`)
		fields := strings.Fields(out)
		if err == nil && len(fields) == 4 && fields[0] == fields[1] && fields[2] == "True" && fields[3] == "False" {
			return ""
		}
		return out
	})
}

// Diagnostics returns what helps to explain a failure.
func (u User) Diagnostics() string {
	var all []string
	for _, args := range [][]string{{"get", "causalstores,statefulsets,deployments,pods,pvc", "-o", "wide"},
		{"get", "causalstores", "-o", "jsonpath={.items[*].status}"},
		{"get", "events", "--field-selector=type=Warning"},
		{"logs", "-n", OperatorNamespace, "deployment/causalstore", "--tail=40"}} {
		out, err := u.Try("", args...)
		if err != nil {
			out += "\n" + err.Error()
		}
		all = append(all, "# kubectl "+strings.Join(args, " ")+"\n"+out)
	}
	return strings.Join(all, "\n\n")
}

// Zones returns the zones of the cluster's nodes.
func (u User) Zones() []string {
	u.Helper()
	var zones []string
	seen := map[string]bool{}
	for _, z := range strings.Fields(u.Kubectl("get", "nodes", "-o",
		`jsonpath={.items[*].metadata.labels.topology\.kubernetes\.io/zone}`)) {
		if !seen[z] {
			seen[z] = true
			zones = append(zones, z)
		}
	}
	return zones
}

// Kubectl returns a command of the kubectl that belongs to the other programs of Kubernetes, or else of the one in
// PATH.
func Kubectl(ctx context.Context, args ...string) (*exec.Cmd, error) {
	if f, err := binaries.Find(ctx, "kubectl"); err == nil {
		return f.Command("kubectl", args...)
	}
	path, err := exec.LookPath("kubectl")
	return exec.CommandContext(ctx, path, args...), err
}
