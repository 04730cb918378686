package processes_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/e2e/etcdserver"
	"github.com/causalstore/causalstore/lab/ports"
	"github.com/causalstore/causalstore/topology"
)

// resizing is a group of data center a, that of its coordinator or its shard, whose number of members changes.
type resizing struct {
	*deployment
	part topology.Part
}

// proc returns the name of the process of a member.
func (r resizing) proc(m int) string {
	if m == 1 {
		return "a-" + r.part.String()
	}
	return fmt.Sprintf("a-%s-%d", r.part, m)
}

// folders returns the folders of a member: that of its log, and of a shard that of its storage.
func (r resizing) folders(m int) []string {
	if r.part == topology.Coordinator {
		return []string{r.path(r.proc(m))}
	}
	return []string{r.path(r.proc(m) + ".log.d"), r.path(r.proc(m))}
}

// planMember plans the process of a further member.
func (r resizing) planMember(m int) {
	name := r.proc(1)
	first := r.procs[name]
	r.plan("a", r.part.String())
	p := r.procs[name]
	p.name, p.log = r.proc(m), r.path(r.proc(m)+".log")
	p.args = append(p.args, "--member", fmt.Sprint(m), "--data-dir", r.folders(m)[0])
	if r.part == topology.Middleman {
		p.args = append(p.args, "--storage-dir", r.folders(m)[1])
	}
	r.procs[name], r.procs[p.name] = first, p
}

// setMembers changes the number of members in the configuration of all processes. The number before is 0 unless some
// leave.
func (r resizing) setMembers(n, before int) {
	r.t.Helper()
	r.config.Topology.Epoch++
	dc, at := &r.config.Topology.DataCenters[0], r.config.Addresses["a"]
	is, was, all := &dc.CoordinatorMembers, &dc.CoordinatorMembersBefore, &at.Coordinators
	if r.part == topology.Middleman {
		is, was, all = &dc.ShardMembers, &dc.ShardMembersBefore, &at.Middlemen
	}
	*is, *was = &n, nil
	if before > 0 {
		*was = &before
	}
	addresses := slices.Clone(*all)
	for len(addresses) < max(n, before) {
		addresses = append(addresses, ports.ForTest(r.t))
	}
	*all = addresses[:max(n, before)]
	r.config.Addresses["a"] = at
	r.writeConfig()
}

// awaitSize waits until the first member serves, and says that the group has n members, as it should, and that nobody
// else is waited for.
func (r resizing) awaitSize(t *testing.T, n float64) {
	t.Helper()
	eventually(t, fmt.Sprintf("a group with %v members", n), func() error {
		var is []float64
		for _, name := range []string{contract.MetricServes(r.part), contract.MetricGroupMembers(r.part),
			contract.MetricGroupMembersWanted(r.part),
			contract.MetricGroupMembersLeaving(r.part)} {
			v, _ := r.procs[r.proc(1)].metric(name + "{")
			is = append(is, v)
		}
		if is[0] != 1 || is[1] != n || is[2] != n || is[3] != 0 {
			return fmt.Errorf("serves, members, wanted, leaving: %v", is)
		}
		return nil
	})
}

// lose kills a member and removes its folders.
func (r resizing) lose(t *testing.T, m int) {
	t.Helper()
	r.kill(r.proc(m))
	for _, dir := range r.folders(m) {
		must(t, os.RemoveAll(dir))
	}
}

// The group of a's coordinator, and that of its shard, goes from one member without a register to two, three, one and
// two again, while clients write through it. Members are killed on the way; the first one even with its folders, at the
// moment when all others are told to leave. Every write succeeds, and nothing that was acknowledged is lost.
func TestMembersComeAndGoWhileClientsWrite(t *testing.T) {
	for _, part := range []topology.Part{topology.Coordinator, topology.Middleman} {
		t.Run(part.String(), func(t *testing.T) { resizeWhileClientsWrite(t, part) })
	}
}

func resizeWhileClientsWrite(t *testing.T, part topology.Part) {
	etcd := etcdserver.New(t, 1)[0]
	r := resizing{deploy(t, waitForCoordinators), part}
	w := r.writeOften(t, "a", 8)
	defer w.stop()
	w.await(t, 200)

	etcd.Start()
	r.config.Register = &contract.Register{Etcd: &contract.EtcdRegister{Endpoints: []string{etcd.Endpoint}}}
	first := r.procs[r.proc(1)]
	if part == topology.Middleman { // it has begun without a log
		r.config.DataDir = r.path("log")
		r.setMembers(2, 0)
		eventually(t, "a second member to be refused", func() error {
			is, err := first.readiness()
			if err == nil && (!is.Ready || !strings.Contains(is.ConfigProblem, "this middleman keeps no log")) {
				err = fmt.Errorf("%+v", is)
			}
			return err
		})
		w.await(t, 100)
		r.setMembers(1, 0)
	}
	r.config.Storage.Replicated = part == topology.Middleman
	r.writeConfig()
	r.stop(first.name)
	first.args = append(first.args, "--data-dir", r.folders(1)[0])
	r.restart(first.name)
	r.awaitSize(t, 1)
	w.await(t, 200)

	for m := 2; m <= 3; m++ {
		r.planMember(m)
		r.setMembers(m, 0)
		r.start(r.procs[r.proc(m)])
		r.awaitSize(t, float64(m))
		w.await(t, 200)
		r.kill(first.name)
		w.await(t, 200) // the others, whose addresses all processes have learned
		r.restart(first.name)
		r.awaitSize(t, float64(m))
	}

	r.lose(t, 1)
	r.setMembers(1, 3)
	w.await(t, 200) // another one serves, although it is to leave
	r.restart(first.name)
	r.awaitSize(t, 1)
	r.setMembers(1, 0)
	for m := 2; m <= 3; m++ {
		r.lose(t, m)
	}
	w.await(t, 200)
	r.kill(first.name)
	r.restart(first.name)
	w.await(t, 200)

	r.setMembers(2, 0)
	r.start(r.procs[r.proc(2)])
	r.awaitSize(t, 2)
	w.await(t, 200)
	delete(r.procs, r.proc(3))
}
