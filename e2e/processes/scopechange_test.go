package processes_test

import (
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
	l := d.startPromised(load.Causal)
	d.setScope(contract.ScopeDataCenter)
	for _, dc := range []string{"a", "b", "c"} {
		for _, name := range []string{dc + "-coordinator", dc + "-sidecar", dc + "-sidecar-2"} {
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
	l = d.startOneRedis()
	l.more(t, 300)
	l.judge(t)
}
