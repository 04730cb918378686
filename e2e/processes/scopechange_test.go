package processes_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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

// A coordinator that has writes of keys of another home, from scope Pod, does not begin as a home before they are in
// every ring.
func TestACoordinatorWithWritesOfKeysOfAnotherHomeDoesNotGetScopeDataCenter(t *testing.T) {
	d := planDeployment(t, nil, func(c *contract.Config) {
		oneRedis(c)
		c.Session.Scope = contract.ScopePod
	})
	d.addHome("a")
	d.addSidecar("a")
	d.startAll()
	d.kill("c-middleman") // so writes are not in every ring
	origins := map[string]string{"@1": "a-coordinator", "@2": "a-coordinator-1"}
	took := ""
	for i := range 40 {
		c := d.client("a")
		must(t, c.Set(t.Context(), fmt.Sprint("k", i), i, 0).Err())
		last, err := c.Do(t.Context(), "CAUSAL", "LAST").Result()
		must(t, err)
		for origin, name := range origins {
			if version, _, _ := strings.Cut(fmt.Sprint(last), " "); strings.HasSuffix(version, origin) {
				took = name
			}
		}
		must(t, c.Close())
	}
	if took == "" {
		t.Fatal("no coordinator has taken a write")
	}
	coordinators := []string{"a-coordinator", "a-coordinator-1"}
	d.setScope(contract.ScopeDataCenter)
	d.stop(took)
	d.start(d.procs[took])
	eventually(t, took+" to refuse its log", func() error {
		b, err := os.ReadFile(d.procs[took].log)
		if err == nil && !strings.Contains(string(b), "keys whose home is another coordinator") {
			err = fmt.Errorf("no word of it")
		}
		return err
	})
	<-d.procs[took].ended

	// As the error says: as before, until all is in every ring, and then all coordinators together.
	d.setScope(contract.ScopePod)
	d.restart(took)
	d.restart("c-middleman")
	for _, name := range coordinators {
		eventually(t, name+" to have completed its writes", func() error {
			if n, ok := d.procs[name].metric("causalstore_coordinator_incomplete_writes"); !ok || n > 0 {
				return fmt.Errorf("%g are left", n)
			}
			return nil
		})
	}
	time.Sleep(5 * time.Second)
	d.setScope(contract.ScopeDataCenter)
	others := []string{"b-coordinator", "c-coordinator", "a-sidecar", "a-sidecar-2", "b-sidecar", "c-sidecar"}
	for _, name := range append(slices.Clone(others), coordinators...) {
		d.stop(name)
	}
	for _, name := range append(slices.Clone(coordinators), others...) {
		d.start(d.procs[name])
	}
	for _, name := range append(coordinators, others...) {
		d.awaitReady(d.procs[name])
	}
	for i := range 40 {
		key := fmt.Sprint("k", i)
		if n, err := d.client("a").Get(t.Context(), key).Int(); n != i || err != nil {
			t.Errorf("%s is %d: %v", key, n, err)
		}
	}
	l := d.startOneRedis()
	l.more(t, 200)
	l.judge(t)
}
