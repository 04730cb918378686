package bench

import (
	"strings"
	"testing"
)

func TestTheOutputOfRedisBenchmarkIsReadByItsColumns(t *testing.T) {
	const head = `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"` + "\n"
	f, err := parseStockFigures([]byte(head+`"GET","1000.5","0.9","0.1","0.75","1","2.5","3"`+"\n"), "GET")
	if want := (stockFigures{1000.5, 0.75, 2.5}); err != nil || f != want {
		t.Errorf("%+v, %v; want %+v", f, err, want)
	}
	for out, want := range map[string]string{
		head: "not a line for GET",
		head + `"SET","1","1","1","1","1","1","1"`: "not a line for GET",
		head + `"GET","x","1","1","1","1","1","1"`: "column rps",
		`"test","avg"` + "\n" + `"GET","1"`:        "no throughput",
		`"GET`:                                     "no CSV",
	} {
		if _, err := parseStockFigures([]byte(out), "GET"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", out, err, want)
		}
	}
}
