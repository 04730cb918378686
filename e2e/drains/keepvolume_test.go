//go:build e2e

package drains_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/e2e/binaries"
	"github.com/causalstore/causalstore/e2e/kube"
)

const (
	single      = "single"
	singleShard = "single-here-shard-0-0"
	singleClaim = "data-" + singleShard
)

// keepVolume deletes the claim of the only copy of some data, sees that the store and the doctor say so, and carries
// out what the doctor prints.
func (u user) keepVolume(path string) {
	const keys = 200
	u.Apply(u.manifest("single.yaml"))
	u.AwaitReady(single)
	u.Apply(kube.Pod("client", "", "", kube.Container{Name: "main", Image: kube.ImageApp,
		Run: `command: [sleep, "86400"]`}))
	u.Kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout="+kube.Patience.String())
	if out := u.Kubectl("exec", "client", "--", "sh", "-c", fmt.Sprintf(
		"i=0; while [ $i -lt %d ]; do echo SET only:$i v$i; i=$((i+1)); done | redis-cli -h %s-here | sort | uniq -c",
		keys, single)); strings.Join(strings.Fields(out), " ") != fmt.Sprint(keys, " OK") {
		u.Fatalf("SET: %s", out)
	}
	volume := u.Kubectl("get", "pvc", singleClaim, "-o", "jsonpath={.spec.volumeName}")

	u.Kubectl("delete", "pvc", singleClaim, "--wait=false")
	u.AwaitOutput("False", "get", "causalstore", single, "-o",
		`jsonpath={.status.conditions[?(@.type=="VolumesKept")].status}`)
	message := u.Kubectl("get", "causalstore", single, "-o",
		`jsonpath={.status.conditions[?(@.type=="VolumesKept")].message}`)
	if !strings.Contains(message, singleClaim) || !strings.Contains(message, singleShard) {
		u.Errorf("VolumesKept says %q, which names no claim and pod", message)
	}
	u.AwaitOutput("0", "get", "pdb", "-l", "app.kubernetes.io/instance="+single+",app.kubernetes.io/component=shard",
		"-o", "jsonpath={.items[*].status.disruptionsAllowed}")
	node := u.Kubectl("get", "pod", singleShard, "-o", "jsonpath={.spec.nodeName}")
	if out, err := u.Try("", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=5s",
		"--pod-selector=app.kubernetes.io/instance="+single+",app.kubernetes.io/component=shard"); err == nil {
		u.Errorf("a drain takes the pod of the only copy of the data:\n%s", out)
	}
	u.Kubectl("uncordon", node)

	said, err := u.shell(path, fmt.Sprintf("kubectl causal doctor %s --namespace %s", single, u.Namespace))
	if err == nil {
		u.Errorf("doctor finds no problem:\n%s", said)
	}
	u.Logf("$ kubectl causal doctor\n%s", said)
	steps := stepsToKeep(said)
	if len(steps) != 7 {
		u.Fatalf("doctor prints %d steps to keep the volume, want 7:\n%s", len(steps), said)
	}
	for _, step := range steps {
		out, err := u.shell(path, step)
		u.Logf("$ %s\n%s", step, out)
		if err != nil {
			u.Fatalf("%s: %v", step, err)
		}
	}
	u.AwaitReady(single)
	u.AwaitOutput("True", "get", "causalstore", single, "-o",
		`jsonpath={.status.conditions[?(@.type=="VolumesKept")].status}`)
	if now := u.Kubectl("get", "pvc", singleClaim, "-o", "jsonpath={.spec.volumeName}"); now != volume {
		u.Errorf("the claim has volume %s, want %s", now, volume)
	}
	u.AwaitOutput(fmt.Sprint(keys), "exec", "client", "--", "redis-cli", "-h", single+"-here", "DBSIZE")
	u.AwaitOutput("v7", "exec", "client", "--", "redis-cli", "-h", single+"-here", "GET", "only:7")
}

// stepsToKeep returns the commands that the doctor prints below "to keep the volume".
func stepsToKeep(doctor string) (steps []string) {
	lines := strings.Split(doctor, "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "to keep the volume") })
	for _, line := range lines[max(0, i)+1:] {
		if i < 0 || !strings.Contains(line, "kubectl") {
			break
		}
		steps = append(steps, line[strings.Index(line, "kubectl"):])
	}
	return steps
}

// plugin puts kubectl and its plugin of this checkout into a folder, and returns a PATH with it.
func (u user) plugin() string {
	u.Helper()
	dir := u.TempDir()
	f, err := binaries.Find(u.Context(), "kubectl")
	if err != nil {
		u.Fatal(err)
	}
	kubectl, err := f.Path("kubectl")
	if err != nil {
		u.Fatal(err)
	}
	for name, program := range map[string]string{"kubectl": kubectl, "kubectl-causal": kube.BuildProgram(u.T)} {
		if program, err = filepath.Abs(program); err != nil {
			u.Fatal(err)
		}
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			u.Fatal(err)
		}
	}
	return dir + string(os.PathListSeparator) + os.Getenv("PATH")
}

// shell runs a command line as a person would.
func (u user) shell(path, line string) (string, error) {
	u.Helper()
	cmd := exec.CommandContext(u.Context(), "sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+path)
	return kube.Output(cmd, "")
}
