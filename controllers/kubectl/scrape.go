package kubectl

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
	"github.com/causalstore/causalstore/controllers/partmetrics"
)

// process is a process in a pod that exports metrics.
type process struct {
	namespace, pod, dataCenter string
	port                       int
}

// processesOf returns the processes in the running pods of a store and of the apps with a sidecar of it.
func processesOf(parts, apps []corev1.Pod) (all []process) {
	for _, p := range parts {
		if p.Status.Phase != corev1.PodRunning || isEdge(&p) || plan.IsOfEtcd(&p) {
			continue // Envoy and etcd export metrics of their own
		}
		dc := p.Labels[plan.LabelDataCenter]
		all = append(all, process{p.Namespace, p.Name, dc, plan.PortHTTP})
		if p.Labels[plan.LabelComponent] == plan.ComponentCoordinator {
			all = append(all, process{p.Namespace, p.Name, dc, plan.PortFrontHTTP})
		}
	}
	for _, p := range apps {
		if of, ok := inject.SidecarOf(&p); ok && p.Status.Phase == corev1.PodRunning {
			all = append(all, process{p.Namespace, p.Name, of.DataCenter, plan.PortHTTP})
		}
	}
	return all
}

// reading is the answer of one process, or the error.
type reading struct {
	process process
	at      time.Time
	metrics partmetrics.Families
	err     error
}

// Bounds of one answer, in time, and of the number of concurrent requests.
const (
	readTimeout = 5 * time.Second
	readAtOnce  = 16
)

// readAll reads the metrics of all processes. It fails only if the user lacks the right to.
func (k *connection) readAll(ctx context.Context, all []process) ([]reading, error) {
	pods, err := typedv1.NewForConfig(k.config)
	if err != nil {
		return nil, err
	}
	out := make([]reading, len(all))
	slots := make(chan struct{}, readAtOnce)
	var running sync.WaitGroup
	for i, p := range all {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			m, err := readMetrics(ctx, pods.Pods(p.namespace), p)
			out[i] = reading{p, time.Now(), m, err}
		})
	}
	running.Wait()
	for _, r := range out {
		if apierrors.IsForbidden(r.err) && r.process.namespace == k.namespace {
			return nil,
				fmt.Errorf(
					"read metrics through the API server: %w; you need a Role in namespace %s with verb get on "+
						"resource pods/proxy",
					r.err, k.namespace)
		}
	}
	return out, nil
}

// readMetrics reads the metrics of one process through the API server.
func readMetrics(ctx context.Context, pods typedv1.PodInterface, p process) (partmetrics.Families, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	body, err := pods.ProxyGet("http", p.pod, strconv.Itoa(p.port), "metrics", nil).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	return partmetrics.Parse(body)
}
