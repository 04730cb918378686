package processes_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/e2e/etcdserver"
)

// memberProc returns the name of a member of a's coordinator.
func memberProc(m int) string {
	if m == 1 {
		return "a-coordinator"
	}
	return fmt.Sprint("a-coordinator-", m)
}

// planMember plans the process of a further member of a's coordinator.
func (d *deployment) planMember(m int) {
	first := d.procs["a-coordinator"]
	d.plan("a", "coordinator")
	p := d.procs["a-coordinator"]
	p.name, p.log = memberProc(m), d.path(memberProc(m)+".log")
	p.args = append(p.args, "--member", fmt.Sprint(m), "--data-dir", d.path(p.name))
	d.procs["a-coordinator"], d.procs[p.name] = first, p
}

// setMembers changes the number of members of a's coordinator in the configuration of all processes. The number before is 0 unless some
// leave.
func (d *deployment) setMembers(n, before int) {
	d.t.Helper()
	d.config.Topology.Epoch++
	dc := &d.config.Topology.DataCenters[0]
	dc.CoordinatorMembers, dc.CoordinatorMembersBefore = &n, nil
	if before > 0 {
		dc.CoordinatorMembersBefore = &before
	}
	at := d.config.Addresses["a"]
	for len(at.Coordinators) < max(n, before) {
		at.Coordinators = append(at.Coordinators, d.ports.take(d.t))
	}
	at.Coordinators = at.Coordinators[:max(n, before)]
	d.config.Addresses["a"] = at
	d.writeConfig()
}

// awaitSize waits until the first member serves, and says that the group has n members, as it should, and that nobody else is waited for.
func (d *deployment) awaitSize(t *testing.T, n float64) {
	t.Helper()
	eventually(t, fmt.Sprintf("a group with %v members", n), func() error {
		var is []float64
		for _, name := range []string{contract.MetricServes, contract.MetricGroupMembers, contract.MetricGroupMembersWanted, contract.MetricGroupMembersLeaving} {
			v, _ := d.procs["a-coordinator"].metric(name + "{")
			is = append(is, v)
		}
		if is[0] != 1 || is[1] != n || is[2] != n || is[3] != 0 {
			return fmt.Errorf("serves, members, wanted, leaving: %v", is)
		}
		return nil
	})
}

// The group of a's coordinator goes from one member without a register to two, three, one and two again, while clients write through it. Members
// are killed on the way; the first one even with its folder, at the moment when all others are told to leave. Every write succeeds, and
// nothing that was acknowledged is lost.
func TestMembersComeAndGoWhileClientsWrite(t *testing.T) {
	etcd := etcdserver.New(t, 1)[0]
	d := deploy(t, waitForCoordinators)
	w := d.writeOften(t, "a", 8)
	defer w.stop()
	w.await(t, 500)

	etcd.Start()
	d.config.Register = &contract.Register{Etcd: &contract.EtcdRegister{Endpoints: []string{etcd.Endpoint}}}
	d.writeConfig()
	d.stop("a-coordinator")
	d.restart("a-coordinator")
	w.await(t, 500)

	for m := 2; m <= 3; m++ {
		d.planMember(m)
		d.setMembers(m, 0)
		d.start(d.procs[memberProc(m)])
		d.awaitSize(t, float64(m))
		w.await(t, 500)
		d.kill("a-coordinator")
		w.await(t, 500) // the others, whose addresses all processes have learned
		d.restart("a-coordinator")
		d.awaitSize(t, float64(m))
	}

	d.kill("a-coordinator")
	must(t, os.RemoveAll(d.path("a-coordinator")))
	d.setMembers(1, 3)
	w.await(t, 500) // another one serves, although it is to leave
	d.restart("a-coordinator")
	d.awaitSize(t, 1)
	d.setMembers(1, 0)
	for m := 2; m <= 3; m++ {
		d.kill(memberProc(m))
		must(t, os.RemoveAll(d.path(memberProc(m))))
	}
	w.await(t, 500)
	d.kill("a-coordinator")
	d.restart("a-coordinator")
	w.await(t, 500)

	d.setMembers(2, 0)
	d.start(d.procs[memberProc(2)])
	d.awaitSize(t, 2)
	w.await(t, 500)
	delete(d.procs, memberProc(3))
}
