//go:build linux && e2e

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/causalstore/causalstore/e2e/binaries"
	"github.com/causalstore/causalstore/e2e/image"
)

// running is a cluster that a test has started. It consists of real processes, as users start them.
type running struct {
	*testing.T
	*bed
	program, probe string
}

// requireMachine skips a test where no cluster can run, and says why. It installs nothing.
func requireMachine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	if os.Geteuid() != 0 {
		t.Skip("not root: nodes need namespaces and mounts")
	}
	if missing := missingTools(); len(missing) > 0 {
		t.Skipf("these packages are not installed: %s; `go run ./e2e/cluster check` installs them",
			strings.Join(missing, ", "))
	}
	if err := check(t.Context()); err != nil {
		t.Skip(err)
	}
}

// startCluster starts a cluster with the flags of `cluster up`, which is removed when the test ends. Its images include
// probeImage.
func startCluster(t *testing.T, flags ...string) *running {
	t.Helper()
	r := startBeds(t, flags...)
	var err error
	if r.bed, err = openBed(r.dir); err != nil {
		t.Fatal(err)
	}
	r.loadProbe()
	return r
}

// startBeds starts one or several clusters, which are removed when the test ends.
func startBeds(t *testing.T, flags ...string) *running {
	t.Helper()
	scratch := t.TempDir()
	r := &running{T: t, program: filepath.Join(scratch, "cluster-program"), probe: filepath.Join(scratch, "probe")}
	for out, pkg := range map[string]string{r.program: ".", r.probe: "./probe"} {
		if err := goBuild(t.Context(), out, pkg); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(scratch, "cluster")
	removeAfterwards(t, r.program, dir)
	r.bed = &bed{dir: dir}
	t.Log(r.cluster(append([]string{"up"}, flags...)...))
	return r
}

func (r *running) loadProbe() {
	r.Helper()
	archive := filepath.Join(r.TempDir(), "probe.tar")
	err := image.Write(archive, probeImage, v1.Config{Entrypoint: []string{"/probe"}, Env: []string{pathEnv}},
		func(l *image.Layer) error { return l.File("/probe", r.probe, 0o755) })
	if err != nil {
		r.Fatal(err)
	}
	r.cluster("load-image", archive)
}

// removeAfterwards removes a cluster when the test ends, also if it is killed: a process waits for the end of its
// input.
func removeAfterwards(t *testing.T, program, dir string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `cat; exec "$0" down --dir "$1"`, program, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(input.Close(), cmd.Wait()); err != nil {
			t.Errorf("remove the cluster: %v\n%s", err, &output)
		}
	})
}

const probeImage = "localhost/probe:1"

// cluster runs a command of the test bed, which must succeed, and returns its output.
func (r *running) cluster(args ...string) string {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 2*startTimeout)
	defer cancel()
	output, err := exec.CommandContext(ctx, r.program, append(args, "--dir", r.dir)...).CombinedOutput()
	if err != nil {
		r.Fatalf("cluster %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// kubectl runs a command, which must succeed, and returns its output.
func (r *running) kubectl(input string, args ...string) string {
	r.Helper()
	out, err := r.tryKubectl(input, args...)
	if err != nil {
		r.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (r *running) tryKubectl(input string, args ...string) (string, error) {
	r.Helper()
	cmd, err := binaries.Folder{Dir: r.Binaries}.Command("kubectl",
		append([]string{"--kubeconfig", r.kubeconfig()}, args...)...)
	if err != nil {
		r.Fatal(err)
	}
	cmd.Stdin = strings.NewReader(input)
	output, err := cmd.CombinedOutput()
	return string(bytes.TrimSpace(output)), err
}

// await waits for a condition; a failure shows the last error.
func (r *running) await(what string, try func() error) {
	r.Helper()
	if err := await(r.Context(), time.Minute, try); err != nil {
		r.Fatalf("waiting for %s: %v", what, err)
	}
}

// awaitDial waits until a connection from a pod (namespace/name) or a machine to an address ends as wanted.
func (r *running) awaitDial(want, from, address string) {
	r.Helper()
	r.await(fmt.Sprintf("%q from %s to %s", want, from, address), func() error {
		if got, err := r.dial(from, address); err != nil || got != want {
			return errors.Join(fmt.Errorf("it ends with %q", got), err)
		}
		return nil
	})
}

func (r *running) dial(from, address string) (string, error) {
	r.Helper()
	if namespace, pod, ok := strings.Cut(from, "/"); ok {
		return r.tryKubectl("", "exec", "--namespace", namespace, pod, "--", "/probe", "dial", address)
	}
	output, err := exec.CommandContext(r.Context(), "nsenter", "--target", strconv.Itoa(r.runningPID(from)), "--net",
		r.probe, "dial", address).CombinedOutput()
	return string(bytes.TrimSpace(output)), err
}

// address returns the address of a pod, with a port.
func (r *running) address(namespace, pod string, port int) string {
	r.Helper()
	ip := r.kubectl("", "get", "pod", "--namespace", namespace, pod, "-o", "jsonpath={.status.podIP}")
	return fmt.Sprintf("%s:%d", ip, port)
}

// Ports of the pods that tests start.
const (
	portOpen   = 7400
	portClosed = 7401
)

// startPod starts a pod on a node, and waits until kubelet finds it ready by connecting to portClosed.
func (r *running) startPod(namespace, name, node, labels string) {
	r.Helper()
	r.kubectl(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: %s, name: %s, labels: {%s}}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  tolerations: [{operator: Exists}] # a busy machine's nodes may not report in time
  containers:
  - name: main
    image: %s
    imagePullPolicy: Never
    args: [serve, "%d", "%d"]
    ports: [{name: open, containerPort: %[6]d}]
    readinessProbe: {tcpSocket: {port: %[7]d}, periodSeconds: 1}
`, namespace, name, labels, node, probeImage, portOpen, portClosed), "apply", "-f", "-")
	r.kubectl("", "wait", "--namespace", namespace, "--for=condition=Ready", "pod/"+name, "--timeout=90s")
}

func TestAClusterOfTwoNodesPerZoneHasCutsAndPolicies(t *testing.T) {
	requireMachine(t)
	r := startCluster(t, "--zones", "zone-a,zone-b", "--nodes-per-zone", "2")
	zones := r.kubectl("", "get", "nodes", "-o", `jsonpath={.items[*].metadata.labels.topology\.kubernetes\.io/zone}`)
	if zones != "zone-a zone-b zone-a zone-b" {
		t.Errorf("nodes are in zones %q", zones)
	}
	if output, err := exec.Command(r.program, "up", "--nodes-per-zone", "3", "--dir",
		r.dir).CombinedOutput(); err == nil || !strings.Contains(string(output), "has 4 nodes") {
		t.Errorf("up with other nodes: %v\n%s", err, output)
	}
	for _, namespace := range []string{"inside", "outside"} {
		r.kubectl("", "create", "namespace", namespace)
	}
	t.Run("cuts", func(t *testing.T) { r.with(t).checkCuts() })
	t.Run("policies", func(t *testing.T) { r.with(t).checkPolicies() })
	t.Run("down", func(t *testing.T) { r.with(t).checkDown() })
}

func (r *running) with(t *testing.T) *running {
	other := *r
	other.T = t
	return &other
}

const kubelet = ":10250"

func (r *running) checkCuts() {
	one, two, three := r.Nodes[0].ip()+kubelet, r.Nodes[1].ip()+kubelet, r.Nodes[2].ip()+kubelet
	// kubelets close connections of which they get no TLS only later; that they take them is enough here.
	reaches := func(want, from, to string) {
		r.Helper()
		r.await(from+" "+want+" "+to, func() error {
			got, err := r.dial(from, to)
			if got = strings.SplitN(got, ",", 2)[0]; got != want {
				return errors.Join(fmt.Errorf("it ends with %q", got), err)
			}
			return nil
		})
	}
	reaches("connected", "node-1", two)
	r.cluster("cut", "zone-a", "zone-b")
	reaches("no answer", "node-1", two)
	reaches("no answer", "node-2", one)
	reaches("connected", "node-1", three)
	reaches("connected", "node-1", r.Network.controlPlane()+":6443")
	r.cluster("cut", "node-1", "node-2", "--reject", "--one-way")
	reaches("refused", "node-1", two)
	reaches("no answer", "node-2", one)
	r.cluster("cut", "node-3", controlPlane, "--reject")
	reaches("refused", "node-3", r.Network.controlPlane()+":6443")
	reaches("refused", controlPlane, three)
	want := "node-1 <-> node-4 drop\nnode-1 -> node-2 reject\nnode-2 -> node-1 drop\nnode-2 <-> node-3 drop\nnode-3 " +
		"<-> node-4 drop\nnode-3 <-> control-plane reject\n"
	if got := r.cluster("cuts"); !sameLines(got, want) {
		r.Errorf("cuts are\n%s\nwant\n%s", got, want)
	}
	for range 2 { // healing again is no error
		r.cluster("heal", "zone-b", "zone-a")
	}
	reaches("connected", "node-1", two)
	reaches("refused", "node-3", r.Network.controlPlane()+":6443")
	for range 2 {
		r.cluster("heal")
	}
	reaches("connected", "node-3", r.Network.controlPlane()+":6443")
	if got := r.cluster("cuts"); got != "nothing is cut\n" {
		r.Errorf("after healing: %s", got)
	}
	if output, err := exec.Command(r.program, "cut", "node-9", "all", "--dir", r.dir).CombinedOutput(); err == nil ||
		!strings.Contains(string(output), `no node or zone "node-9"`) {
		r.Errorf("an unknown node: %v\n%s", err, output)
	}
}

func sameLines(a, b string) bool {
	lines := func(s string) map[string]int {
		counts := map[string]int{}
		for line := range strings.Lines(s) {
			counts[line]++
		}
		return counts
	}
	return fmt.Sprint(lines(a)) == fmt.Sprint(lines(b)) // maps print in the order of their keys
}

func (r *running) checkPolicies() {
	r.cluster("heal") // if checkCuts has failed
	r.startPod("inside", "server", "node-1", "app: server")
	for _, node := range []string{"node-1", "node-2"} {
		r.startPod("inside", "friend-on-"+node, node, "role: friend")
		r.startPod("outside", "stranger-on-"+node, node, "role: friend") // the label counts in another namespace only
	}
	open, closed := r.address("inside", "server", portOpen), r.address("inside", "server", portClosed)
	clients := []string{"inside/friend-on-node-1", "inside/friend-on-node-2", "outside/stranger-on-node-1",
		"outside/stranger-on-node-2"}
	for _, c := range clients {
		r.awaitDial("connected", c, open)
	}
	r.kubectl(`
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: inside, name: server},
 spec: {podSelector: {matchLabels: {app: server}}, ingress: [{from: [{podSelector: {matchLabels: {role: friend}}}], ports: [{port: open}]}]}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: inside, name: server}, spec: {selector: {app: server}, ports: [{port: 80, targetPort: open}]}}
`, "apply", "-f", "-")
	service := r.kubectl("", "get", "service", "--namespace", "inside", "server", "-o", "jsonpath={.spec.clusterIP}") +
		":80"
	for _, c := range clients[2:] {
		r.awaitDial("no answer", c, open)
		r.awaitDial("no answer", c, service)
	}
	for _, c := range clients[:2] {
		r.awaitDial("no answer", c, closed)
		r.awaitDial("connected", c, open)
		r.awaitDial("connected", c, service)
	}
	// A pod that is isolated from the start becomes ready: kubelet reaches a port that no policy opens.
	r.startPod("inside", "server-2", "node-2", "app: server")
	r.awaitDial("no answer", "outside/stranger-on-node-2", r.address("inside", "server-2", portOpen))
	r.awaitDial("connected", "inside/friend-on-node-2", r.address("inside", "server-2", portOpen))
	r.kubectl(`
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: inside, name: friends},
 spec: {podSelector: {matchLabels: {role: friend}}, policyTypes: [Egress], egress: [
  {to: [{podSelector: {matchLabels: {app: server}}}], ports: [{port: open}]}, {to: [{ipBlock: {cidr: `+r.Network.controlPlane()+`/32}}]}]}}
`, "apply", "-f", "-")
	for _, c := range clients[:2] {
		r.awaitDial("no answer", c, r.address("outside", "stranger-on-node-1", portOpen))
		r.awaitDial("connected", c, open)
		r.awaitDial("connected", c, service)
	}
	r.awaitDial("connected", clients[3], r.address("outside", "stranger-on-node-1", portOpen))
	r.cluster("stop-node", "node-1")
	r.cluster("start-node", "node-1")
	r.await("the server's new address", func() error {
		if now, err := r.tryKubectl("", "get", "pod", "--namespace", "inside", "server", "-o",
			`jsonpath={.status.podIP} {.status.containerStatuses[0].restartCount}`); err != nil ||
			!strings.HasSuffix(now, " 1") {
			return errors.Join(fmt.Errorf("it has %q", now), err)
		}
		return nil
	})
	open = r.address("inside", "server", portOpen)
	r.awaitDial("connected", "inside/friend-on-node-2", open)
	r.awaitDial("no answer", "outside/stranger-on-node-2", open)
	r.kubectl("", "delete", "networkpolicy", "--namespace", "inside", "--all")
	r.awaitDial("connected", "outside/stranger-on-node-2", open)
}

// checkDown removes the cluster and looks for what is left.
func (r *running) checkDown() {
	var pids []int
	for _, machine := range []string{controlPlane, "node-1", "node-4"} {
		pids = append(pids, r.runningPID(machine))
	}
	r.cluster("down")
	r.cluster("down") // of what is gone is no error
	if _, err := os.Stat(r.dir); !os.IsNotExist(err) {
		r.Errorf("the directory: %v", err)
	}
	for _, pid := range pids {
		if state, _ := stat(pid); pid == 0 || state != "" && state != "Z" {
			r.Errorf("process %d is in state %q", pid, state)
		}
	}
	hierarchies, err := findHierarchies()
	if err != nil {
		r.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(hierarchies["pids"], r.cgroup())); !os.IsNotExist(err) {
		r.Errorf("the control group: %v", err)
	}
}
