package processes_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/causalstore/causalstore/e2e/etcdserver"
	"github.com/causalstore/causalstore/lab/ports"
)

// etcd still has the group of before, whose volumes are all gone. No person is asked: the first coordinator of the data
// center knows that it has left.
func TestACoordinatorWithMembersThatHasLeftComesBackWithNewFolders(t *testing.T) {
	etcd := etcdserver.Start(t)
	d := planDeployment(t, nil, waitForCoordinators)
	d.addMember("b", etcd.Endpoint)
	d.startAll()
	d.awaitWhole(t, "b")
	members := []string{"b-coordinator-1", "b-coordinator-1-2"}
	var second []*proc
	first := d.procs["b-coordinator"]
	for i, name := range members {
		d.plan("b", "coordinator")
		p := d.procs["b-coordinator"]
		p.name, p.log = name, d.path(name+".log")
		p.args = append(p.args, "--index", "1", "--member", strconv.Itoa(i+1), "--data-dir", d.path(name))
		d.procs[name], second = p, append(second, p)
	}
	d.procs["b-coordinator"] = first
	all := d.config.Addresses["b"].Coordinators
	all = append(all, ports.ForTest(t), ports.ForTest(t))
	scale := func(n, before int) {
		t.Helper()
		d.config.Topology.Epoch++
		dc := d.dataCenter("b")
		if dc.Coordinators, dc.CoordinatorsBefore = &n, nil; before > 0 {
			dc.CoordinatorsBefore = &before
		}
		at := d.config.Addresses["b"]
		at.Coordinators = slices.Clone(all[:2*max(n, before)])
		d.config.Addresses["b"] = at
		d.writeConfig()
	}
	for range 2 {
		scale(2, 0)
		for _, p := range second {
			d.start(p)
		}
		eventually(t, "a member of the second coordinator to serve", func() error {
			var reports []string
			for _, p := range second {
				r, err := p.readiness()
				if err == nil && r.Ready && r.Membership == "serving" {
					return nil
				}
				reports = append(reports, fmt.Sprintf("%+v, %v", r, err))
			}
			return fmt.Errorf("%v", reports)
		})
		if !d.tookPuts(t, second[0]) {
			t.Error("the second coordinator has taken no put")
		}
		scale(1, 2)
		eventually(t, "the second coordinator not to be in use", func() error {
			r, err := d.procs[d.serving("b")].readiness()
			if err == nil && (r.Epoch != d.config.Topology.Epoch || !slices.Equal(r.CoordinatorsInUse, []int{0})) {
				err = fmt.Errorf("%+v", r)
			}
			return err
		})
		for _, name := range members {
			d.stop(name)
			must(t, os.RemoveAll(d.path(name)))
		}
		scale(1, 0)
	}
}
