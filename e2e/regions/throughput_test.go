//go:build e2e

package regions_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/e2e/kube"
)

// envMeasure runs the measurement, which takes some minutes. It uses the store of the journey, so both must run.
const envMeasure = "CAUSALSTORE_E2E_MEASURE"

const (
	backlogWrites = 100_000
	backlogBytes  = backlogWrites * 1024
)

// TestThroughputOfABacklogBetweenTwoDataCenters prints how fast 100 MB of writes that have waited for a cut WAN reach
// the other region, over one coordinator's link through both edges, beside what one TCP connection carries over the
// same WAN.
func TestThroughputOfABacklogBetweenTwoDataCenters(t *testing.T) {
	if os.Getenv(envMeasure) == "" {
		t.Skip("a measurement: set " + envMeasure)
	}
	regions := openRegions(t)
	us, eu := regions[0], regions[1]
	eu.serveBytes()
	node := strings.Fields(eu.Kubectl("get", "nodes", "-o",
		`jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`))[0]
	us.Apply(plainPod("reader", kube.ImageApp, `[sleep, "86400"]`))
	us.Kubectl("wait", "--for=condition=Ready", "pod/reader", "--timeout="+kube.Patience.String())
	for _, delay := range []time.Duration{40 * time.Millisecond, 125 * time.Millisecond} {
		wan(t, "delay", delay.String())
		ceiling := us.readBytes(node)
		wan(t, "cut")
		us.writeBacklog(delay)
		client := us.client().Conn()
		if err := client.Set(t.Context(), "last", "1", 0).Err(); err != nil {
			t.Fatal(err)
		}
		wan(t, "heal")
		began := time.Now()
		us.Await("the backlog to be in every ring", func() string {
			rings, err := client.Do(t.Context(), "CAUSAL", "WAIT", "all", "20000").Int()
			if err != nil || rings == 0 {
				return fmt.Sprintf("CAUSAL WAIT answers %d (%v)", rings, err)
			}
			return ""
		})
		rate := backlogBytes / time.Since(began).Seconds()
		t.Logf(
			"round trip %s: %.1f MB/s of values, from the heal to the last acknowledgement; one TCP connection %.1f "+
				"MB/s; share %.0f %%", 2*delay, rate/1e6, ceiling/1e6, 100*rate/ceiling)
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
	wan(t, "delay", "40ms")
}

// plainPod returns the manifest of a pod with one container and no sidecar.
func plainPod(name, image, command string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}, annotations: {causalstore.io/inject: "false"}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: %[2]q, imagePullPolicy: IfNotPresent, command: %[3]s}]
`, name, image, command)
}

const bytesPort = 31444

// serveBytes starts a server that sends as many bytes as the backlog has to each connection.
func (r region) serveBytes() {
	r.Helper()
	r.Apply(
		plainPod("bytes", kube.ImageApp,
			fmt.Sprintf(`[sh, -c, "while true; do nc -l -p 8080 -e head -c %d /dev/zero; done"]`, backlogBytes)))
	r.Apply(
		fmt.Sprintf(
			"{apiVersion: v1, kind: Service, metadata: {name: bytes}, spec: {type: NodePort, selector: {app: bytes}, "+
				"ports: [{port: 8080, nodePort: %d}]}}", bytesPort))
	r.Kubectl("wait", "--for=condition=Ready", "pod/bytes", "--timeout="+kube.Patience.String())
}

// readBytes returns the best rate of three reads from the server, in bytes per second.
func (r region) readBytes(node string) (best float64) {
	r.Helper()
	for range 3 {
		r.Await("bytes of the other region", func() string {
			began := time.Now()
			out, err := r.Try("", "exec", "reader", "--", "sh", "-c",
				fmt.Sprintf("nc %s %d </dev/null | wc -c", node, bytesPort))
			if err != nil || out != fmt.Sprint(backlogBytes) {
				return fmt.Sprintf("%q (%v)", out, err)
			}
			best = max(best, backlogBytes/time.Since(began).Seconds())
			return ""
		})
	}
	return best
}

// writeBacklog writes values of 1 KiB in the region.
func (r region) writeBacklog(delay time.Duration) {
	r.Helper()
	name := "backlog-" + delay.String()
	workload := "{operations: {set: 1}, keys: {count: 1000}, values: {bytes: 1024}}"
	r.Apply(fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: workload}, data: {workload.yaml: %q}}",
		workload))
	r.Apply(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, annotations: {causalstore.io/inject: "false"}}
spec:
  restartPolicy: Never
  volumes: [{name: workload, configMap: {name: workload}}]
  containers:
  - name: main
    image: %q
    imagePullPolicy: IfNotPresent
    args: [load, --endpoint=%s-%s:6379, --workload=/workload/workload.yaml, --ops=%d, --sessions=16, --pipeline=16, --load-keys=0, --timeout=30s]
    volumeMounts: [{name: workload, mountPath: /workload}]
`, name, kube.ImageStore, storeName, r.dataCenter(), backlogWrites))
	r.AwaitOutput("Succeeded", "get", "pod", name, "-o", "jsonpath={.status.phase}")
	r.Logf("%s", r.Kubectl("logs", name))
}
