//go:build e2e

package store_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/e2e/binaries"
)

// user works with kubectl and helm in one namespace.
type user struct {
	*testing.T
	namespace string
}

// kubectl runs a command that must succeed and returns its output.
func (u user) kubectl(args ...string) string {
	u.Helper()
	out, err := u.try("", args...)
	if err != nil {
		u.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// try runs kubectl with standard input and returns all output.
func (u user) try(input string, args ...string) (string, error) {
	u.Helper()
	cmd, err := kubectl(u.Context(), append([]string{"--namespace", u.namespace}, args...)...)
	if err != nil {
		u.Fatal(err)
	}
	return output(cmd, input)
}

func output(cmd *exec.Cmd, input string) (string, error) {
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &out
	err := cmd.Run()
	return strings.TrimSpace(out.String()), err
}

func (u user) apply(manifest string) {
	u.Helper()
	if out, err := u.try(manifest, "apply", "-f", "-"); err != nil {
		u.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// helm runs a command that must succeed and returns its output.
func (u user) helm(args ...string) string {
	u.Helper()
	program, err := binaries.Helm(u.Context())
	if err != nil {
		u.Fatal(err)
	}
	cmd := exec.CommandContext(u.Context(), program, append([]string{"--namespace", u.namespace}, args...)...)
	cmd.Dir = root
	out, err := output(cmd, "")
	if err != nil {
		u.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// patience bounds every wait. A rolling update of a whole store, pod after pod, takes longest.
const patience = 8 * time.Minute

// await waits until check returns no problem. A failure shows the last one.
func (u user) await(what string, check func() string) {
	u.Helper()
	limit := time.NewTimer(patience)
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
			u.Fatalf("timed out waiting for %s: %s\n%s", what, last, u.diagnostics())
		case <-again.C:
		}
	}
}

// awaitOutput waits until kubectl prints the wanted output.
func (u user) awaitOutput(want string, args ...string) {
	u.Helper()
	u.await("kubectl "+strings.Join(args, " "), func() string {
		out, err := u.try("", args...)
		if err != nil || out != want {
			return fmt.Sprintf("got %q, want %q", out, want)
		}
		return ""
	})
}

// diagnostics returns what helps to explain a failure.
func (u user) diagnostics() string {
	var all []string
	for _, args := range [][]string{{"get", "causalstores,statefulsets,pods,pvc", "-o", "wide"},
		{"get", "causalstores", "-o", "jsonpath={.items[*].status}"}, {"get", "events", "--field-selector=type=Warning"}, {"logs", "-n", operatorNamespace, "deployment/causalstore", "--tail=40"}} {
		out, err := u.try("", args...)
		if err != nil {
			out += "\n" + err.Error()
		}
		all = append(all, "# kubectl "+strings.Join(args, " ")+"\n"+out)
	}
	return strings.Join(all, "\n\n")
}

// zones returns the zones of the cluster's nodes.
func (u user) zones() []string {
	u.Helper()
	var zones []string
	seen := map[string]bool{}
	for _, z := range strings.Fields(u.kubectl("get", "nodes", "-o", `jsonpath={.items[*].metadata.labels.topology\.kubernetes\.io/zone}`)) {
		if !seen[z] {
			seen[z] = true
			zones = append(zones, z)
		}
	}
	return zones
}

// sample returns the sample manifest of three rings, with the cluster's images and zones. It admits helm test, which writes to it.
func (u user) sample() string {
	u.Helper()
	text, err := os.ReadFile(root + "/config/samples/three-rings.yaml")
	if err != nil {
		u.Fatal(err)
	}
	zones := u.zones()
	if len(zones) < 6 {
		u.Fatalf("the sample needs nodes in six zones; the cluster has %q", zones)
	}
	replace := []string{"redis:7.4", imageRedis, "\nspec:\n",
		"\nspec:\n  access: {namespaces: {matchLabels: {kubernetes.io/metadata.name: " + operatorNamespace + "}}}\n"}
	for i, zone := range zones[:6] {
		replace = append(replace, "[zone-"+string(rune('a'+i))+"]", "["+zone+"]")
	}
	return strings.NewReplacer(replace...).Replace(string(text))
}
