package kubectl

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

// process is one process of a pod that shows metrics.
type process struct {
	namespace, pod, dataCenter string
	port                       int
}

// processesOf lists what shows metrics in the pods of a store and in those with a sidecar of it. A pod that does not run has none.
func processesOf(parts, apps []corev1.Pod) (all []process) {
	for _, p := range parts {
		if p.Status.Phase != corev1.PodRunning {
			continue
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

// families are the metrics of a process, by name.
type families map[string]*dto.MetricFamily

// sum adds the values of all series of a metric that keep accepts; nil accepts all. A histogram counts its observations.
func (f families) sum(name string, keep func(label func(string) string) bool) float64 {
	total := 0.0
	for _, m := range f[name].GetMetric() {
		label := func(name string) string {
			for _, l := range m.GetLabel() {
				if l.GetName() == name {
					return l.GetValue()
				}
			}
			return ""
		}
		if keep == nil || keep(label) {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return total
}

// reading is what one process said, or why it did not.
type reading struct {
	of      process
	at      time.Time
	metrics families
	err     error
}

// Bounds of a reading: of one answer, in time and bytes, and how many are asked at the same time.
const (
	readTimeout = 5 * time.Second
	maxMetrics  = 4 << 20
	readAtOnce  = 16
)

// readAll asks all processes. It fails only if none may be asked at all.
func (k *connection) readAll(ctx context.Context, all []process) ([]reading, error) {
	pods, err := typedv1.NewForConfig(k.config)
	if err != nil {
		return nil, err
	}
	out := make([]reading, len(all))
	slots := make(chan struct{}, readAtOnce)
	var asked sync.WaitGroup
	for i, p := range all {
		asked.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			m, err := read(ctx, pods.Pods(p.namespace), p)
			out[i] = reading{p, time.Now(), m, err}
		})
	}
	asked.Wait()
	for _, r := range out {
		if apierrors.IsForbidden(r.err) && r.of.namespace == k.namespace {
			return nil, fmt.Errorf("read metrics through the API server: %w; ask for a Role in namespace %s with verb get on resource pods/proxy",
				r.err, k.namespace)
		}
	}
	return out, nil
}

// read asks one process through the API server.
func read(ctx context.Context, pods typedv1.PodInterface, p process) (families, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	body, err := pods.ProxyGet("http", p.pod, strconv.Itoa(p.port), "metrics", nil).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	return parse(io.LimitReader(body, maxMetrics))
}

func parse(text io.Reader) (families, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	f, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	return f, nil
}
