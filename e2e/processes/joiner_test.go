package processes_test

import (
	"fmt"
	"testing"
)

// TestAProcessThatWaitsForOthersToSeeAChangeIsReadyAndReportsIt configures a new number of shards in the new middleman
// and one coordinator only, so that the change cannot proceed.
func TestAProcessThatWaitsForOthersToSeeAChangeIsReadyAndReportsIt(t *testing.T) {
	d := deploy(t, waitLong)
	old := d.configPath()
	d.file = "changed.yaml"
	d.setShards(2, 1)
	b := d.procs["b-middleman"]
	d.plan("b", "middleman")
	joiner := d.procs["b-middleman"]
	d.procs["b-middleman"], d.procs["b-middleman-1"] = b, joiner
	joiner.name, joiner.log = "b-middleman-1", d.path("b-middleman-1.log")
	joiner.args = append(joiner.args, "--index", "1", "--storage-dir", d.path("b-middleman-1"))
	d.start(joiner)
	d.awaitReady(joiner)
	coordinator := d.procs["c-coordinator"]
	d.kill("c-coordinator")
	for i, a := range coordinator.args {
		if a == old {
			coordinator.args[i] = d.configPath()
		}
	}
	d.restart("c-coordinator")
	for _, p := range []*proc{joiner, coordinator} {
		eventually(t, p.name+" to say what it waits for", func() error {
			r, err := p.readiness()
			waits := r.Shards == "copying" && p == joiner || fmt.Sprint(r.RingsBefore) == "[one]" && p == coordinator
			if err == nil && (!r.Ready || !waits || r.Epoch != d.config.Topology.Epoch) {
				err = fmt.Errorf("%+v", r)
			}
			return err
		})
	}
	if r, err := b.readiness(); err != nil || !r.Ready || r.Shards != "none" {
		t.Errorf("one that has not heard: %+v, %v", r, err)
	}
}
