// Package partmetrics reads the metrics that the processes of a store serve.
package partmetrics

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// MaxBytes bounds the metrics of one process.
const MaxBytes = 4 << 20

// Families are the metrics of a process by name.
type Families map[string]*dto.MetricFamily

// Parse parses metrics in the text format, at most MaxBytes of them.
func Parse(text io.Reader) (Families, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	f, err := parser.TextToMetricFamilies(io.LimitReader(text, MaxBytes))
	if err != nil {
		return nil, fmt.Errorf("parse metrics: %w", err)
	}
	return f, nil
}

// ParseOnly parses the metrics with some names, and leaves the others out before they cost anything.
func ParseOnly(text io.Reader, names map[string]bool) (Families, error) {
	var kept bytes.Buffer
	lines := bufio.NewScanner(io.LimitReader(text, MaxBytes))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Bytes()
		name := line
		if after, ok := bytes.CutPrefix(line, []byte("# TYPE ")); ok {
			name = after
		}
		if i := bytes.IndexAny(name, "{ "); i >= 0 {
			name = name[:i]
		}
		if names[string(name)] {
			kept.Write(line)
			kept.WriteByte('\n')
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return Parse(&kept)
}

// Sum adds the values of all series of a metric for which keep returns true; a nil keep selects all. The value of a
// histogram is its number of observations.
func (f Families) Sum(name string, keep func(label func(string) string) bool) float64 {
	total := 0.0
	for _, m := range f[name].GetMetric() {
		if keep == nil || keep(func(name string) string { return Label(m, name) }) {
			total += Value(m)
		}
	}
	return total
}

// Value returns the value of a series.
func Value(m *dto.Metric) float64 {
	return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
}

// Label returns the value of a label, or nothing.
func Label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
