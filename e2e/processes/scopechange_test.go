package processes_test

import (
	"slices"
	"testing"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/load"
)

// setScope changes the scope of sessions in the configuration of all processes.
func (d *deployment) setScope(scope contract.Scope) {
	d.config.Session.Scope = scope
	d.writeConfig()
}

// Each data center has one coordinator. While clients use both sidecars of a, the processes of all data centers get
// scope DataCenter, one by one, coordinators first. What is answered is causal all the time, and afterwards what one
// Redis in each data center would answer.
func TestALiveStoreWithOneCoordinatorInEachDataCenterGetsScopeDataCenter(t *testing.T) {
	d := planDeployment(t, nil, func(c *contract.Config) {
		oneRedis(c)
		c.Session.Scope = contract.ScopePod
	})
	for _, dc := range []string{"a", "c"} {
		d.addSidecar(dc)
	}
	d.startAll()
	d.rollScope(t, contract.ScopeDataCenter)
}

// The same of a store that had scope DataCenter before, and Pod in between. What coordinators have accepted in between
// is what one Redis has afterwards.
func TestALiveStoreGetsScopeDataCenterAgain(t *testing.T) {
	d := planDeployment(t, nil, oneRedis)
	for _, dc := range []string{"a", "c"} {
		d.addSidecar(dc)
	}
	d.startAll()
	l := d.startOneRedis()
	l.more(t, 100)
	l.judge(t)
	d.rollScope(t, contract.ScopePod)
	d.rollScope(t, contract.ScopeDataCenter)
}

// rollScope gives the processes of all data centers another scope of sessions, one by one, while clients use them. With
// scope DataCenter a sidecar needs a home, so coordinators get that first, and lose it last.
func (d *deployment) rollScope(t *testing.T, scope contract.Scope) {
	t.Helper()
	l := d.startPromised(load.Causal)
	d.setScope(scope)
	for _, dc := range []string{"a", "b", "c"} {
		names := []string{dc + "-coordinator", dc + "-sidecar", dc + "-sidecar-2"}
		if scope != contract.ScopeDataCenter {
			slices.Reverse(names)
		}
		for _, name := range names {
			if d.procs[name] == nil {
				continue
			}
			l.more(t, 100)
			d.stop(name)
			d.restart(name)
		}
	}
	l.more(t, 100)
	l.judgeCausal(t)
	if scope == contract.ScopeDataCenter {
		l = d.startOneRedis()
		l.more(t, 300)
		l.judge(t)
	}
}
