package processes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/contract"
)

// lastSegment returns the path of the last segment of a coordinator's log.
func (d *deployment) lastSegment(name string) string {
	d.t.Helper()
	segments, err := filepath.Glob(d.path(name, "log", "*.log"))
	must(d.t, err)
	if len(segments) == 0 {
		d.t.Fatalf("%s has no log", name)
	}
	return slices.Max(segments)
}

func TestACoordinatorWhoseLogHasLostItsEndDoesNotStart(t *testing.T) {
	d := deploy(t, nil)
	p := d.procs["a-coordinator"]
	a := d.client("a")
	d.kill("c-middleman") // what follows is in the log only, for one of the rings
	acknowledged := map[string]string{}
	for i := range 120 {
		key, value := fmt.Sprint("k", i), strings.Repeat(fmt.Sprint(i, " "), 2000)
		must(t, a.Set(t.Context(), key, value, 0).Err())
		acknowledged[key] = value
	}
	d.kill(p.name)
	segment := d.lastSegment(p.name)
	data, err := os.ReadFile(segment)
	must(t, err)
	for what, size := range map[string]int{"without 300 KB": len(data) - 300<<10, "without all but 100 bytes": 100,
		"without a byte": len(data) - 1} {
		must(t, os.Truncate(segment, int64(size)))
		d.startUnready(p.name, "to report that its log is damaged, "+what, func(r contract.Readiness) bool {
			return r.State == contract.StateDataLost && r.Phase == contract.PhaseStarting &&
				strings.HasPrefix(r.Reason, "data lost: ") &&
				strings.Contains(r.Reason, segment) && strings.Contains(r.Reason, "The log goes to record ") &&
				strings.Contains(r.Reason, "was acknowledged up to record ") &&
				strings.Contains(r.Reason, "docs/disasters.md")
		})
		if lost, ok := p.metric("causalstore_data_lost{"); !ok || lost != 1 {
			t.Errorf("%s: causalstore_data_lost is %v, %v", what, lost, ok)
		}
		d.kill(p.name)
		if info, err := os.Stat(segment); err != nil || info.Size() != int64(size) {
			t.Errorf("%s: the refused start has changed the log: %v, %v", what, info, err)
		}
		must(t, os.WriteFile(segment, data, 0o600))
	}

	// What is left of a write that was not acknowledged is cut off.
	must(t, os.WriteFile(segment, append(data, []byte(strings.Repeat("rest", 1000))...), 0o600))
	d.restart(p.name)
	d.restart("c-middleman")
	for _, dc := range []string{"a", "c"} {
		c := d.client(dc)
		eventually(t, "the acknowledged writes in "+dc, func() error { return missing(t.Context(), c, acknowledged) })
	}
	eventually(t, "writes to be accepted", func() error { return a.Set(t.Context(), "after", "1", 0).Err() })
}
