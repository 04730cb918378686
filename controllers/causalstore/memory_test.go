package causalstore_test

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/e2e/apiserver"
	"github.com/causalstore/causalstore/sidecar/metrics"
)

var (
	numbers = flag.String("stores", "",
		"measure the memory of the operator with these numbers of stores, such as 0,1,10,100")
	settle = flag.Duration("settle", time.Minute, "how long to watch the memory after all stores are ready")
)

// TestMemoryOfTheOperatorWithManyStores asserts only that all stores become ready. It runs the program that is shipped,
// and prints its memory.
func TestMemoryOfTheOperatorWithManyStores(t *testing.T) {
	if *numbers == "" {
		t.Skip("a measurement: give -stores 0,1,10,100")
	}
	k := newCluster(t)
	k.workloads.serveMetrics()
	operator := k.startProgram()
	have := 0
	for _, text := range strings.Split(*numbers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("-stores: %v", err)
		}
		began := time.Now()
		for ; have < n; have++ {
			k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) { s.Name = fmt.Sprintf("store-%d", have+1) })
		}
		k.awaitStores(n)
		took := time.Since(began)
		now, most := operator.watch(t, *settle)
		t.Logf("%3d stores: all ready after %5.1f s; anonymous memory %5.1f MiB, at most %5.1f MiB within %s", n,
			took.Seconds(), now, most, *settle)
	}
}

// awaitStores waits until n stores are ready.
func (k *cluster) awaitStores(n int) {
	k.t.Helper()
	for ready := 0; ready < n; time.Sleep(50 * time.Millisecond) {
		var all v1alpha1.CausalStoreList
		if err := k.client.List(k.t.Context(), &all, client.InNamespace(k.namespace)); err != nil {
			k.t.Fatal(err)
		}
		ready = 0
		for i := range all.Items {
			if meta.IsStatusConditionTrue(all.Items[i].Status.Conditions, v1alpha1.ConditionReady) {
				ready++
			}
		}
	}
}

// serveMetrics makes all pods serve metrics, which are about as long as those of a coordinator.
func (w *workloads) serveMetrics() {
	w.t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", plan.PortHTTP))
	if err != nil {
		w.t.Fatal(err)
	}
	registry := metrics.NewRegistry()
	lag := prometheus.NewGauge(prometheus.GaugeOpts{Name: "causalstore_coordinator_stability_lag_seconds"})
	registry.MustRegister(lag)
	server := &http.Server{Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}
	go func() { _ = server.Serve(l) }() // until Close
	w.t.Cleanup(func() { _ = server.Close() })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.podIP = "127.0.0.1"
}

// program is an operator in a process of its own.
type program struct{ pid int }

func (k *cluster) startProgram() program {
	k.t.Helper()
	dir := k.t.TempDir()
	path := filepath.Join(dir, "causalstore")
	build := exec.CommandContext(k.t.Context(), "go", "build", "-buildvcs=false", "-trimpath", "-o", path, "../..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		k.t.Fatalf("go build: %v\n%s", err, said)
	}
	kubeconfig := apiserver.Kubeconfig(k.t)
	cmd := exec.Command(path, "operator", "--region=local", "--image=causalstore:v1", "--leader-elect=false",
		"--authority-namespace=default", "--metrics-address=0", "--console-address=0",
		"--health-address=0", "--log-level=error")
	var said bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "KUBECONFIG="+kubeconfig), &said, &said
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			k.t.Errorf("the operator: %v\n%s", err, said.String())
		}
	})
	return program{cmd.Process.Pid}
}

// watch returns the memory of the process after some time, and the greatest in that time, both in MiB and without the
// pages of its program file.
func (p program) watch(t *testing.T, d time.Duration) (now, most float64) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
		if err != nil {
			t.Fatalf("the operator has ended, or this is not Linux: %v", err)
		}
		_, rest, _ := strings.Cut(string(text), "RssAnon:")
		var kib float64
		if _, err := fmt.Sscan(rest, &kib); err != nil {
			t.Fatal(err)
		}
		now = kib / 1024
		most = max(most, now)
	}
	return now, most
}
