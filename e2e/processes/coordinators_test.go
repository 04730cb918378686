package processes_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/ports"
)

// setCoordinators changes the number of coordinators of b in the configuration of all processes. The number before is 0
// unless some are removed.
func (d *deployment) setCoordinators(n, before int) {
	d.t.Helper()
	d.config.Topology.Epoch++
	dc := &d.config.Topology.DataCenters[1]
	dc.Coordinators, dc.CoordinatorsBefore = &n, nil
	if before > 0 {
		dc.CoordinatorsBefore = &before
	}
	at := d.config.Addresses["b"]
	for len(at.Coordinators) < max(n, before) {
		at.Coordinators = append(at.Coordinators, ports.ForTest(d.t))
	}
	at.Coordinators = at.Coordinators[:max(n, before)]
	d.config.Addresses["b"] = at
	d.writeConfig()
}

// planSecondCoordinator plans the process of coordinator 1 of a data center.
func (d *deployment) planSecondCoordinator(dc string) (second *proc) {
	name := dc + "-coordinator"
	first := d.procs[name]
	d.plan(dc, "coordinator")
	second = d.procs[name]
	second.name, second.log = name+"-1", d.path(name+"-1.log")
	second.args = append(second.args, "--index", "1", "--data-dir", d.path(name+"-1"))
	d.procs[name], d.procs[second.name] = first, second
	return second
}

func (d *deployment) awaitMembership(t *testing.T, name, want string) {
	t.Helper()
	eventually(t, name+" to be "+want, func() error {
		r, err := d.procs[name].readiness()
		if err == nil && (string(r.Membership) != want || r.Epoch != d.config.Topology.Epoch ||
			r.Ready != (want == "serving")) {
			err = fmt.Errorf("%+v", r)
		}
		return err
	})
}

func TestCoordinatorsAreAddedAndRemovedWhileClientsWrite(t *testing.T) {
	d := deploy(t, waitLong)
	second := d.planSecondCoordinator("b")
	w := d.write(t, 40)
	for round := range 3 {
		d.setCoordinators(2, 0)
		d.start(second)
		d.awaitMembership(t, second.name, "serving")
		if round == 1 {
			// it has been let in, and nobody must forget that; a kill would leave the outcome of a write unknown
			d.stop(second.name)
			d.restart(second.name)
		}
		through := d.tookPuts(t, second)
		d.setCoordinators(1, 2)
		d.awaitMembership(t, second.name, "left")
		if !through {
			t.Errorf("%s has taken no put", second.name)
		}
		d.stop(second.name) // not killed: a sidecar may not have read yet that it is removed, and be sending it a write
		d.setCoordinators(1, 0)
		if round == 1 { // it returns on a new folder
			if err := os.RemoveAll(d.path("b-coordinator-1")); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.stop(t, d)
}

// tookPuts opens sessions until one of their writes goes through coordinator p.
func (d *deployment) tookPuts(t *testing.T, p *proc) bool {
	t.Helper()
	for i, deadline := 0, time.Now().Add(patience); time.Now().Before(deadline); i++ {
		c := d.client("b")
		if err := c.Set(t.Context(), fmt.Sprintf("session-%d", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
		last, err := c.Do(t.Context(), "CAUSAL", "LAST").Result()
		_ = c.Close()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(fmt.Sprint(last), "@18") { // the origin of coordinator 1 of the second data center
			return true
		}
	}
	return false
}
