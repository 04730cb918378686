package processes_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/e2e/etcdserver"
	"github.com/causalstore/causalstore/lab/ports"
	"github.com/causalstore/causalstore/topology"
)

// Each coordinator of a has two members, and the configurations of their groups are in a real etcd. Each member is
// killed under load, once with its folder; so is etcd. Every write succeeds, and nothing that was acknowledged is lost.
func TestNoWriteFailsWhileMembersOfACoordinatorAreKilled(t *testing.T) {
	etcd := etcdserver.Start(t)
	d := planDeployment(t, nil, waitForCoordinators)
	d.addMember("a", etcd.Endpoint)
	d.startAll()
	d.awaitWhole(t, "a")
	w := d.writeOften(t, "a", 8)
	defer w.stop()
	w.await(t, 200)
	for _, name := range []string{"a-coordinator", "a-coordinator-2"} {
		if text, err := os.ReadFile(d.procs[name].log); err != nil ||
			d.serves(name) && !strings.Contains(string(text), "this member serves") {
			t.Errorf("%s serves, and its log does not say so: %v", name, err)
		}
	}
	for _, lost := range []struct {
		member string
		wipe   bool
	}{{"a-coordinator", false}, {"a-coordinator-2", false}, {"a-coordinator", true}, {"a-coordinator-2", true}} {
		w.slowest()
		serving := d.serves(lost.member)
		d.kill(lost.member)
		w.await(t, 200) // without it
		t.Logf("%s was killed (it served: %v, its folder was removed: %v); the slowest write took %v", lost.member,
			serving, lost.wipe, w.slowest())
		if lost.wipe {
			must(t, os.RemoveAll(d.path(lost.member)))
		}
		d.restart(lost.member)
		d.awaitWhole(t, "a")
		w.await(t, 200)
	}
	t.Run("a member that is told to stop hands over", func(t *testing.T) {
		for _, name := range []string{"a-coordinator", "a-coordinator-2"} {
			w.slowest()
			d.stop(name)
			w.await(t, 200)
			t.Logf("%s was stopped; the slowest write took %v", name, w.slowest())
			d.restart(name)
			d.awaitWhole(t, "a")
		}
	})
	t.Run("without etcd the group goes on as it is", func(t *testing.T) {
		etcd.Kill()
		w.await(t, 500)
	})
	t.Run("a failover waits for etcd", func(t *testing.T) {
		name := "a-coordinator"
		if !d.serves(name) {
			name = "a-coordinator-2"
		}
		d.kill(name)
		etcd.Start()
		w.await(t, 200)
		d.restart(name)
		d.awaitWhole(t, "a")
	})
}

// addMember gives the coordinator of a data center a second member.
func (d *deployment) addMember(dc, etcd string) {
	d.config.Register = &contract.Register{Etcd: &contract.EtcdRegister{Endpoints: []string{etcd}}}
	two := 2
	d.dataCenter(dc).CoordinatorMembers = &two
	at := d.config.Addresses[dc]
	at.Coordinators = append(at.Coordinators, ports.ForTest(d.t))
	d.config.Addresses[dc] = at
	_, second := d.planSecond(dc, "coordinator")
	second.args = append(second.args, "--data-dir", d.path(second.name))
}

// dataCenter returns a data center of the topology.
func (d *deployment) dataCenter(name string) *topology.FileDataCenter {
	return &d.config.Topology.DataCenters[slices.Index([]string{"a", "b", "c"}, name)]
}

// planSecond plans a second member of a part that has one, and returns both.
func (d *deployment) planSecond(dc, part string) (first, second *proc) {
	name := dc + "-" + part
	first = d.procs[name]
	d.plan(dc, part)
	second = d.procs[name]
	second.name, second.log = name+"-2", d.path(name+"-2.log")
	second.args = append(second.args, "--member", "2")
	d.procs[name], d.procs[second.name] = first, second
	return first, second
}

// awaitWhole waits until both members of a coordinator have every acknowledged write.
func (d *deployment) awaitWhole(t *testing.T, dc string) { d.awaitWholeGroup(t, dc, "coordinator") }

// awaitWholeGroup does so for a part. Then either member may be killed, and the other one takes over.
func (d *deployment) awaitWholeGroup(t *testing.T, dc, part string) {
	t.Helper()
	names := []string{dc + "-" + part, dc + "-" + part + "-2"}
	eventually(t, "the group of the "+part+" of "+dc+" to be whole", func() error {
		var serving []int
		for i, name := range names {
			if members, _ := d.procs[name].metric("causalstore_" + part + "_group_members{"); members != 2 {
				return fmt.Errorf("%s says that the group has %v members", name, members)
			}
			if d.serves(name) {
				serving = append(serving, i)
			}
		}
		if len(serving) != 1 {
			return fmt.Errorf("%d members serve", len(serving))
		}
		return followsSinceItsStart(d.procs[names[serving[0]]], d.procs[names[1-serving[0]]])
	})
}

// followsSinceItsStart returns why the process that serves has not heard the other member since that was started; nil:
// it has. A member that was killed and started within a second is in the group all the time, by its own log and for the
// one that serves, which may be about to do without it.
func followsSinceItsStart(serving, other *proc) error {
	age := time.Since(other.started)
	r, err := serving.readiness()
	switch {
	case err != nil:
		return err
	case r.Group == nil || len(r.Group.Others) != 1:
		return fmt.Errorf("%s does not say how the other member is: %+v", serving.name, r)
	}
	o := r.Group.Others[0]
	if o.State != contract.MemberInStep || o.HeardMsAgo == nil || *o.HeardMsAgo >= age.Milliseconds() {
		return fmt.Errorf("%s has not heard of %s since it was started: %s", serving.name, other.name, show(r.Group))
	}
	return nil
}

func (d *deployment) serves(name string) bool {
	_, part, _ := strings.Cut(strings.TrimSuffix(name, "-2"), "-")
	v, _ := d.procs[name].metric("causalstore_" + part + "_serves{")
	return v == 1
}
