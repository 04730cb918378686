package storepage

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// served answers requests with texts by host and port, without a network.
type served map[string][]byte

func (s served) RoundTrip(r *http.Request) (*http.Response, error) {
	text, ok := s[r.URL.Host]
	if !ok {
		return nil, fmt.Errorf("nothing at %s", r.URL.Host)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(text)), Request: r}, nil
}

// BenchmarkSnapshot measures what the page costs the operator every 2 s: reading all processes of data centers with two
// coordinators, two fronts, two caches and a shard each, and a snapshot. The metrics are those of real parts. It leaves
// the network out.
func BenchmarkSnapshot(b *testing.B) {
	r := newRig(b)
	texts := map[string][]byte{} // by component, and of the front
	for i := range r.all {
		p, ok := r.all[i].(*corev1.Pod)
		if !ok || p.Labels[plan.LabelDataCenter] != "a" {
			continue
		}
		for kind, port := range map[string]int{p.Labels[plan.LabelComponent]: plan.PortHTTP,
			plan.FrontContainer: plan.PortFrontHTTP} {
			if kind == plan.FrontContainer && len(p.Spec.Containers) == 0 {
				continue
			}
			url := "http://" + net.JoinHostPort(p.Status.PodIP, fmt.Sprint(port)) + "/metrics"
			for deadline := time.Now().Add(time.Minute); len(texts[kind]) == 0; time.Sleep(10 * time.Millisecond) {
				if answer, err := r.client().Get(url); err == nil {
					texts[kind], _ = io.ReadAll(answer.Body)
					_ = answer.Body.Close()
				} else if time.Now().After(deadline) {
					b.Fatal(err)
				}
			}
		}
	}
	for _, stop := range r.stop {
		stop()
	}
	for _, n := range []int{8, 16} {
		b.Run(fmt.Sprintf("dcs=%d", n), func(b *testing.B) { measureSnapshots(b, n, texts) })
	}
}

func measureSnapshots(b *testing.B, dataCenters int, texts map[string][]byte) {
	store := &v1alpha1.CausalStore{}
	store.Namespace, store.Name = "shop", "orders"
	of, answers := &objects{}, served{}
	bytesRead := 0
	for i := range dataCenters {
		dc := fmt.Sprintf("dc-%d", i)
		store.Spec.DataCenters = append(store.Spec.DataCenters, v1alpha1.DataCenter{Name: dc, Region: "us"})
		store.Spec.Rings = append(store.Spec.Rings, v1alpha1.Ring{Name: "ring-" + dc, DataCenters: []string{dc}})
		for component, count := range map[string]int32{plan.ComponentCoordinator: 2, plan.ComponentCache: 2,
			plan.ComponentShard: 1} {
			labels := plan.Labels("orders")
			labels[plan.LabelRegion], labels[plan.LabelDataCenter], labels[plan.LabelComponent] = "us", dc, component
			set := &appsv1.StatefulSet{}
			set.Namespace, set.Name, set.Labels, set.Spec.Replicas = "shop", "orders-"+dc+"-"+component, labels, &count
			of.all = append(of.all, set)
			for n := range count {
				ip := fmt.Sprintf("10.%d.%d.%d", i, len(component), n)
				pod := newPod("shop", fmt.Sprintf("%s-%d", set.Name, n), ip, labels)
				answers[net.JoinHostPort(ip, fmt.Sprint(plan.PortHTTP))] = texts[component]
				bytesRead += len(texts[component])
				if component == plan.ComponentCoordinator {
					pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: plan.FrontContainer})
					answers[net.JoinHostPort(ip, fmt.Sprint(plan.PortFrontHTTP))] = texts[plan.FrontContainer]
					bytesRead += len(texts[plan.FrontContainer])
				}
				of.all = append(of.all, pod)
			}
		}
	}
	of.all = append(of.all, store)
	s := (&rig{TB: b, store: store}).page()
	s.stores, s.uncached, s.reader = of, of, &reader{client: &http.Client{Transport: answers}}
	if got := s.Take(b.Context()); len(got.Problems) != 0 || got.DataCenters[0].InFlight == nil ||
		got.DataCenters[dataCenters-1].Sessions == nil {
		b.Fatalf("the snapshot lacks something: %+v", got)
	}
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		s.Take(b.Context())
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/1e3/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(bytesRead)/1024, "KiB-read/op")
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
