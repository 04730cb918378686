package processes_test

import (
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// Somebody with the certificate of a coordinator, or of a shard, says that it is another member of the group, which the
// topology does not have yet, and that it serves. Parts must not turn away from the one that does: not for as long as
// the link lasts, and not afterwards.
func TestNobodyTakesAGroupOverAsAMemberThatTheTopologyDoesNotHave(t *testing.T) {
	d := deployForAttacks(t)
	client, far := d.client("a"), d.client("c")
	must(t, client.Set(t.Context(), "k", "before", 0).Err())
	awaitValue(t, "c", far, "k", "before")
	forged := wire.AppendAnnouncement(nil,
		wire.Announcement{Leadership: causal.Leadership{Epoch: 1 << 62, Life: 1 << 62}, Number: 1 << 62})
	for role, self := range map[string]topology.Node{
		"coordinator": {Part: topology.Coordinator, Member: 2},
		"middleman":   {Part: topology.Middleman, Member: 3},
	} {
		a := d.attackerAs("a", self, role)
		for _, dc := range []string{"a", "b", "c"} {
			for _, addr := range []string{d.config.Addresses[dc].Middlemen[0], d.config.Addresses[dc].Coordinators[0]} {
				if dc == "a" && (role == "coordinator") == (addr == d.config.Addresses[dc].Coordinators[0]) {
					continue // itself
				}
				l, err := a.dial(addr, self, 1<<60)
				must(t, err)
				must(t, l.stream.SendMsg(forged))
				// it is misrouted
				must(t, l.send(causal.Ping{ID: 1}.Message(self, topology.Node{Part: topology.Sidecar})))
				defer l.close()
			}
		}
	}
	for i := range 20 {
		must(t, client.Set(t.Context(), "k", i, 0).Err())
	}
	awaitValue(t, "c", far, "k", "19")
	eventually(t, "all writes to be complete", func() error {
		if n, ok := d.procs["a-coordinator"].metric("causalstore_coordinator_incomplete_writes"); !ok || n > 0 {
			return fmt.Errorf("%v are not", n)
		}
		return nil
	})
}
