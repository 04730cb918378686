//go:build e2e

package regions_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/causalstore/causalstore/e2e/kube"
)

// envClusters is how many clusters there are: 2 (default) or 3.
const envClusters = "CAUSALSTORE_E2E_CLUSTERS"

// regionNames are the regions, each in a cluster of its own.
var regionNames = func() []string {
	all := []string{"us", "eu", "ap"}
	switch n := os.Getenv(envClusters); n {
	case "", "2":
		return all[:2]
	case "3":
		return all
	default:
		panic(envClusters + "=" + n + "; want 2 or 3")
	}
}()

const (
	namespace = "shop"
	storeName = "orders"
)

// region is one region as its administrator sees it.
type region struct {
	kube.User
	name, cluster string
}

// dataCenter is the region's only data center.
func (r region) dataCenter() string { return r.name + "-1" }

// openRegions returns all regions.
func openRegions(t *testing.T) (all []region) {
	for i, name := range regionNames {
		cluster := fmt.Sprintf("cluster-%d", i+1)
		all = append(all, region{kube.User{T: t, Namespace: namespace, Kubeconfig: bed.kubeconfigs[cluster]},
			name, cluster})
	}
	return all
}

// operator returns the region's user in the namespace of the operator.
func (r region) operator() kube.User { return r.In(kube.OperatorNamespace) }

// edgePort is the port of the edges on all nodes.
const edgePort = 31443

// manifest returns the manifest of the store, which is the same in all regions. Each region is a data center with a
// ring of its own.
func manifest(regions []region) string {
	var dcs, rings strings.Builder
	for _, r := range regions {
		node := strings.Fields(r.Kubectl("get", "nodes", "-o",
			`jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`))[0]
		zones := r.Zones()
		fmt.Fprintf(&dcs, `  - name: %s
    region: %s
    zones: {frontend: [%s], backend: [%s]}
    coordinators: {replicas: 1, volume: {size: 1Gi}}
    caches: {replicas: 1, memory: 64Mi}
    edge: {address: "%s:%d", service: {type: NodePort, nodePort: %d}}
`, r.dataCenter(), r.name, zones[0], zones[1], node, edgePort, edgePort)
		fmt.Fprintf(&rings, "  - {name: ring-%s, dataCenters: [%s]}\n", r.name, r.dataCenter())
	}
	return fmt.Sprintf(`apiVersion: causalstore.io/v1alpha1
kind: CausalStore
metadata: {name: %s}
spec:
  id: 4f9c2c1e-6a0b-4d55-9a54-0c3f7d1b8e21
  storage: {engine: Redis, image: "%s", volume: {size: 1Gi}}
  dataCenters:
%s  rings:
%s`, storeName, kube.ImageRedis, &dcs, &rings)
}

// plugin runs `kubectl causal` with all regions as contexts; it must succeed.
func plugin(t *testing.T, regions []region, args ...string) string {
	t.Helper()
	out, err := tryPlugin(t, regions, args...)
	if err != nil {
		t.Fatalf("kubectl causal %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	t.Logf("$ kubectl causal %s\n%s", strings.Join(args, " "), out)
	return out
}

func tryPlugin(t *testing.T, regions []region, args ...string) (string, error) {
	t.Helper()
	all := api.NewConfig()
	for _, r := range regions {
		c, err := clientcmd.LoadFromFile(r.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		current := c.Contexts[c.CurrentContext]
		all.Clusters[r.name], all.AuthInfos[r.name] = c.Clusters[current.Cluster], c.AuthInfos[current.AuthInfo]
		all.Contexts[r.name] = &api.Context{Cluster: r.name, AuthInfo: r.name}
		args = append(args, "--context", r.name)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*all, file); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bed.store, append([]string{"kubectl"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+file)
	return kube.Output(cmd, "")
}

// wan changes the WAN between the clusters.
func wan(t *testing.T, args ...string) {
	t.Helper()
	if err := bed.run(t.Context(), append([]string{"wan"}, args...)...); err != nil {
		t.Fatalf("cluster wan %s: %v", strings.Join(args, " "), err)
	}
}

var forwarding = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+)`)

// forwardClients makes the Service of the region's data center reachable from the host until the test ends, and returns
// its address there.
func (r region) forwardClients() string {
	r.Helper()
	return r.forward("service/"+storeName+"-"+r.dataCenter(), 6379)
}

// forward makes a port of a Service or pod reachable from the host until the test ends, and returns its address there.
func (r region) forward(target string, port int) string {
	r.Helper()
	cmd, err := kube.Kubectl(r.Context(), "--namespace", r.Namespace, "port-forward", "--address=127.0.0.1", target,
		fmt.Sprint(":", port))
	if err != nil {
		r.Fatal(err)
	}
	cmd.Env, cmd.Stderr = append(os.Environ(), "KUBECONFIG="+r.Kubeconfig), os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := forwarding.FindStringSubmatch(lines.Text()); m != nil {
			go func() { // it prints a line for each connection
				for lines.Scan() {
					continue
				}
			}()
			return m[1]
		}
	}
	r.Fatal("kubectl port-forward ended")
	return ""
}

// client returns a client of the region's data center.
func (r region) client() *redis.Client {
	r.Helper()
	c := redis.NewClient(&redis.Options{Addr: r.forwardClients(), MaxRetries: 5, ReadTimeout: 30 * time.Second})
	r.Cleanup(func() { _ = c.Close() })
	return c
}

// load is a load from clients in all regions, whose history is checked as one.
type load struct {
	*testing.T
	cmd    *exec.Cmd
	output strings.Builder
	ended  chan error
}

// startLoad starts a load through the fronts of all regions.
func startLoad(t *testing.T, regions []region) *load {
	t.Helper()
	args := []string{"load", "--sessions=6", "--duration=1h", "--rate=100", "--keys=100", "--timeout=10s", "--check",
		"--record", filepath.Join(t.TempDir(), "history.jsonl")}
	for _, r := range regions {
		r.T = t
		args = append(args, fmt.Sprintf("--endpoint=%s=%s", r.name, r.forwardClients()))
	}
	l := &load{T: t, cmd: exec.Command(bed.store, args...), ended: make(chan error, 1)}
	l.cmd.Stdout, l.cmd.Stderr = &l.output, &l.output
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { l.ended <- l.cmd.Wait() }()
	t.Cleanup(func() { _ = l.cmd.Process.Kill() })
	return l
}

var operations = regexp.MustCompile(`(?m)^(\d+) operations in .*; (\d+) failed, (\d+) of unknown outcome`)

// stop ends the load and checks its history. It returns how many operations failed or have an unknown outcome.
func (l *load) stop() (failed string) {
	l.Helper()
	if err := l.cmd.Process.Signal(syscall.SIGINT); err != nil {
		l.Fatalf("the load has ended too early: %v\n%s", err, &l.output)
	}
	err := <-l.ended
	l.Logf("load:\n%s", &l.output)
	if err != nil || !strings.Contains(l.output.String(), "causal+") {
		l.Errorf("the load failed, or its history is not causal: %v", err)
	}
	m := operations.FindStringSubmatch(l.output.String())
	if m == nil || m[1] == "0" {
		l.Fatal("the load did nothing")
	}
	return m[2] + " failed, " + m[3] + " of unknown outcome"
}
