package demo

import (
	"strings"
	"testing"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

// tell tells the tour of a deployment made with o.
func tell(t *testing.T, o local.Options) (Outcome, string) {
	t.Helper()
	o.Topology, o.Engine, o.Scope, o.WAN, o.Host, o.DataDir = topology.Default(), "embedded", node.ScopePod, true,
		"127.0.0.1", t.TempDir()
	d, err := local.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	var b strings.Builder
	outcome, err := Run(t.Context(), d, o.Topology, Options{Out: &b})
	if err != nil {
		t.Fatal(err)
	}
	return outcome, b.String()
}

func TestEveryStatementOfTheTourHolds(t *testing.T) {
	t.Parallel()
	outcome, told := tell(t, local.Options{Cache: true})
	if outcome.Unexpected > 0 || outcome.Held < 16 {
		t.Errorf("%+v\n%s", outcome, told)
	}
}

func TestTheTourSaysWhatIsNotAsItShouldBe(t *testing.T) {
	t.Parallel()
	outcome, told := tell(t, local.Options{Cache: false})
	if outcome.Unexpected == 0 || !strings.Contains(told, "UNEXPECTED  The reads came from remote and remote") {
		t.Errorf("without a cache: %+v\n%s", outcome, told)
	}
	if !strings.Contains(told, "did not hold.") || strings.Contains(told, "All of the") {
		t.Errorf("the end does not tell of it:\n%s", told)
	}
}
