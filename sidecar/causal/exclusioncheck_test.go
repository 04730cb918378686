package causal

import (
	"testing"

	"github.com/causalstore/causalstore/topology"
)

// Data centers 0 and 1, of which 1 was excluded more than once: what a shard of it says by an earlier exclusion is of
// data that it has to drop.
func TestAMessageIsHandledByTheNewestExclusionOfEachDataCenter(t *testing.T) {
	shard, coordinator := topology.Node{DC: 1, Part: topology.Middleman},
		topology.Node{DC: 1, Part: topology.Coordinator}
	for _, c := range []struct {
		name               string
		from               topology.Node
		own, known, theirs Exclusions
		want               ExclusionCheck
	}{
		{name: "nobody knows of any", from: shard, want: ExclusionsAdmit},
		{name: "a shard by the same", from: shard, own: Exclusions{0, 2}, known: Exclusions{0, 2},
			theirs: Exclusions{0, 2}, want: ExclusionsAdmit},
		{name: "a shard by none", from: shard, own: Exclusions{0, 2}, known: Exclusions{0, 2}, want: ExclusionsRefuse},
		{name: "a shard by the one before", from: shard, own: Exclusions{0, 2}, known: Exclusions{0, 2},
			theirs: Exclusions{0, 1}, want: ExclusionsRefuse},
		{name: "a coordinator by the one before", from: coordinator, own: Exclusions{0, 2}, known: Exclusions{0, 2},
			theirs: Exclusions{0, 1}, want: ExclusionsAdmit},
		{name: "a shard without that of another data center", from: shard, own: Exclusions{3, 2},
			known: Exclusions{3, 2}, theirs: Exclusions{0, 2}, want: ExclusionsAdmit},
		{name: "the second one, which is declared here", from: coordinator, own: Exclusions{0, 1},
			known: Exclusions{0, 2}, theirs: Exclusions{0, 2}, want: ExclusionsNew},
		{name: "the second one, which is not", from: coordinator, own: Exclusions{0, 1}, known: Exclusions{0, 1},
			theirs: Exclusions{0, 2}, want: ExclusionsRefuse},
		{name: "one that is not declared beside one that is", from: coordinator, known: Exclusions{0, 1},
			theirs: Exclusions{1, 1}, want: ExclusionsRefuse},
	} {
		var out Outbox
		out.SetExclusions(c.theirs)
		out.Send(LaneHello{}.Message(c.from, topology.Node{}))
		m := out.Take(nil)[0]
		if got := c.own.Check(&m, c.known, Mutations{}); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
		if got := c.own.Check(&m, c.known, MutationsOf(ExclusionUnmarked)); got != ExclusionsAdmit {
			t.Errorf("%s, with exclusion-unmarked: %d", c.name, got)
		}
	}
}
