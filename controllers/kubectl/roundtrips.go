package kubectl

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/partmetrics"
)

// roundTrips are those that the first coordinators of data centers have probed: from, to, time. A negative time means
// no answer.
type roundTrips map[string]map[string]time.Duration

// measureRoundTrips reads the round trips from the metrics of all coordinators. If some do not answer it returns the
// others' and an error.
func (k *connection) measureRoundTrips(ctx context.Context, parts []corev1.Pod) (roundTrips, error) {
	var coordinators []process
	for _, p := range processesOf(parts, nil) {
		if p.port == plan.PortHTTP && isCoordinator(parts, p.pod) {
			coordinators = append(coordinators, p)
		}
	}
	readings, err := k.readAll(ctx, coordinators)
	if err != nil {
		return nil, err
	}
	all := roundTrips{}
	for _, r := range readings {
		if r.err != nil {
			err = fmt.Errorf("read metrics of %s: %w", r.process.pod, r.err)
			continue
		}
		all.add(r.process.dataCenter, r.metrics)
	}
	return all, err
}

func isCoordinator(parts []corev1.Pod, name string) bool {
	for _, p := range parts {
		if p.Name == name {
			return p.Labels[plan.LabelComponent] == plan.ComponentCoordinator
		}
	}
	return false
}

func (t roundTrips) add(from string, f partmetrics.Families) {
	for _, m := range f[contract.MetricRoundTrip].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() != contract.LabelToDataCenter {
				continue
			}
			if t[from] == nil {
				t[from] = map[string]time.Duration{}
			}
			seconds := m.GetGauge().GetValue()
			if math.IsInf(seconds, 1) {
				t[from][l.GetValue()] = -1
				continue
			}
			t[from][l.GetValue()] = time.Duration(seconds * float64(time.Second))
		}
	}
}

// write writes a table with a row for each data center that answered and a column for each data center of the store.
func (t roundTrips) write(w io.Writer, dataCenters []string) error {
	if len(t) == 0 {
		return nil
	}
	all := table{{}, append([]string{"ROUND TRIP"}, dataCenters...)}
	for _, from := range dataCenters {
		if t[from] == nil {
			continue
		}
		row := []string{from}
		for _, to := range dataCenters {
			row = append(row, t.format(from, to))
		}
		all.row(row...)
	}
	return all.write(w)
}

func (t roundTrips) format(from, to string) string {
	switch d, ok := t[from][to]; {
	case !ok:
		return "-"
	case d < 0:
		return "no answer"
	default:
		return formatRounded(d)
	}
}

// formatRounded renders a time with about three digits.
func formatRounded(d time.Duration) string {
	step := time.Microsecond
	for d >= 1000*step {
		step *= 10
	}
	return d.Round(step).String()
}
