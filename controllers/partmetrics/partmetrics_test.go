package partmetrics

import (
	"strings"
	"testing"
)

const text = `# HELP a_total Things that are counted.
# TYPE a_total counter
a_total{kind="x"} 3
a_total{kind="y"} 4
# TYPE ab gauge
ab 7
# TYPE h histogram
h_bucket{le="+Inf"} 9
h_sum 1
h_count 9
`

func TestOnlyTheNamedMetricsAreParsed(t *testing.T) {
	f, err := ParseOnly(strings.NewReader(text), map[string]bool{"a_total": true})
	if err != nil || len(f) != 1 || f.Sum("a_total", nil) != 7 {
		t.Errorf("%v (%v)", f, err)
	}
	if y := f.Sum("a_total", func(label func(string) string) bool { return label("kind") == "y" }); y != 4 {
		t.Errorf("a_total of kind y is %v", y)
	}
}

func TestAHistogramCountsObservations(t *testing.T) {
	f, err := Parse(strings.NewReader(text))
	if err != nil || len(f) != 3 || f.Sum("h", nil) != 9 || f.Sum("absent", nil) != 0 {
		t.Errorf("%v (%v)", f, err)
	}
}

func TestWhatIsNoMetricIsAnError(t *testing.T) {
	if f, err := Parse(strings.NewReader("<html>\n")); err == nil {
		t.Errorf("parsed: %v", f)
	}
}
