package process

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/sidecar/wal"
	"github.com/causalstore/causalstore/topology"
)

// How a part whose disk is empty or damaged explains itself in its readiness report.

// maxNamedParts bounds the parts that an explanation names.
const maxNamedParts = 4

// nameParts lists parts for people.
func nameParts(t *topology.Topology, nodes []topology.Node) string {
	var names []string
	for i, n := range nodes {
		if i == maxNamedParts {
			names = append(names, fmt.Sprintf("%d more", len(nodes)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s %d of %s", n.Part, n.Index, t.DCs[n.DC].Name))
	}
	return strings.Join(names, ", ")
}

// explainUnanswered says why a part with an empty disk does not serve yet.
func explainUnanswered(t *topology.Topology, disk string, nodes []topology.Node) error {
	return fmt.Errorf("its %s is empty, and it is not known yet whether it should be: waiting for the answer of %s; "+
		"a new store serves once all of its data centers have been up once", disk, nameParts(t, nodes))
}

// explainWithdrawal says why a middleman keeps its data and answers nothing.
func explainWithdrawal(t *topology.Topology, dc topology.DC, missing []topology.Node) error {
	return fmt.Errorf(
		"its data center %s was excluded: it keeps what it has and answers nothing until shards of other rings have "+
			"said that they serve, have all data, and know the same exclusions; waiting for %s. If these wait for "+
			"it, too, two sides have excluded each other, and a person has to choose whose data count; see "+
			"docs/disasters.md, Two sides have excluded each other", t.DCs[dc].Name, nameParts(t, missing))
}

// explainKeptDamage says why a middleman keeps what is left of its storage and answers nothing.
func explainKeptDamage(t *topology.Topology, w shard.Withdrawn) error {
	lost, missing := "all data", "; nothing tells what it lacks, so all of it counts as lost"
	if w.Missing != nil {
		lost, missing = "what this one lacks", ": "+describeRanges(w.Missing)
	}
	next := ""
	if len(w.Nowhere) > 0 {
		next = "; " + describeRanges(w.Nowhere) + " are lost there, too"
	}
	return fmt.Errorf(
		"data lost: the storage is damaged%s; the shard keeps what is left of it and answers nothing until shards of "+
			"other rings have said that they have %s; waiting for %s%s; if they have lost it, a person has to "+
			"decide; see docs/disasters.md, A shard has lost its data",
		missing, lost, nameParts(t, w.Without), next)
}

// describeRanges names ranges of keys for people.
func describeRanges(rs causal.KeyRanges) string {
	if len(rs) == 0 {
		return "no keys"
	}
	last := rs[len(rs)-1].To
	end := fmt.Sprintf("below %.60q", last)
	if last == "" {
		end = "to the last"
	}
	if len(rs) == 1 {
		return fmt.Sprintf("the keys from %.60q %s", rs[0].From, end)
	}
	return fmt.Sprintf("the keys of %d ranges, from %.60q %s", len(rs), rs[0].From, end)
}

// explainOldCopy says why a middleman keeps an older copy of its data and answers nothing.
func explainOldCopy(t *topology.Topology, coordinator topology.Node, missing []topology.Node) error {
	return fmt.Errorf(
		"data lost: the storage is an older copy of what the shard had, as %s remembers. It is kept, and nothing is "+
			"answered, until shards of other rings have said that they serve and have all data, from which the shard "+
			"then gets them; waiting for %s. If no ring has them, put back the storage as it was when the process "+
			"stopped, or accept what is missing; see docs/disasters.md, An older copy of a storage",
		nameParts(t, []topology.Node{coordinator}), nameParts(t, missing))
}

// explainUnheard says why a middleman that has just started answers no read yet.
func explainUnheard(t *topology.Topology, nodes []topology.Node) error {
	return fmt.Errorf(
		"starting: it is not known yet whether the storage is an older copy: waiting for what %s remembers of it. "+
			"One of them has to answer, and all others are waited for during 3 s", nameParts(t, nodes))
}

// explainKept says why a middleman whose data count though its data center was excluded refuses reads.
func explainKept(t *topology.Topology, b middleman.BackfillProgress) error {
	next := b.Stage
	if len(b.Waiting) > 0 {
		next = "waiting for " + nameParts(t, b.Waiting)
	}
	return fmt.Errorf(
		"its data center was excluded, and its data count anyway (keepsData): it serves once it has what "+
			"coordinators had under way (%s)", next)
}

// explainLostStorage says why a middleman refuses reads, and how far it has come in getting its data back.
func explainLostStorage(t *topology.Topology, known []topology.Node, b middleman.BackfillProgress, refills bool) error {
	because := "this was found at an earlier start"
	if len(known) > 0 {
		because = nameParts(t, known) + " had acknowledgements of it"
	}
	next := "there is no other ring to get it from"
	if refills {
		next = describeBackfill(t, b)
	}
	return fmt.Errorf(
		"data lost: the storage is without data that it had acknowledged (%s); reads are refused here and served by "+
			"other rings; %s; see docs/disasters.md, A shard has lost its data", because, next)
}

// describeBackfill says how far a backfill has come, in steps of a tenth: each other text is another event of the pod.
func describeBackfill(t *topology.Topology, b middleman.BackfillProgress) string {
	switch {
	case b.NobodyHas:
		return "the shards of all other rings that should have it say that they have lost it, too: nobody has it any " +
			"more, and they wait for each other"
	case b.Stage == middleman.BackfillCopies && b.Donors != topology.NoRing:
		return fmt.Sprintf("it is copied from ring %s, about %d %% of it so far", t.Rings[b.Donors].Name,
			b.Keys*10/max(b.Expected, 1)*10)
	case len(b.Waiting) > 0:
		return fmt.Sprintf(
			"it will be served again once %s has sent what it had under way (%s); one of an earlier version cannot, "+
				"and has to be upgraded",
			nameParts(t, b.Waiting), b.Stage)
	}
	return fmt.Sprintf("it comes back from other rings (%s)", b.Stage)
}

// explainLostLog says why a coordinator refuses writes.
func (c *coordinatorPart) explainLostLog(t *topology.Topology) error {
	known := nameParts(t, c.c.DataLost())
	if c.c.IsRetired() {
		return fmt.Errorf(
			"data lost: this log was given up, and another one has taken its place, says %s; no write is accepted, "+
				"and what this one still sends is refused; stop the process and empty its dataDir, or keep that "+
				"elsewhere; if another process serves as this coordinator, do not start this one again", known)
	}
	return fmt.Errorf(
		"data lost: the log is empty, but it held writes, says %s; to start over would make the rings differ for "+
			"ever, so no write is accepted; give it back its dataDir, or give its log up, see docs/disasters.md, A "+
			"coordinator has lost its log", known)
}

// explainUnanswered says why a coordinator with an empty log does not serve yet.
func (c *coordinatorPart) explainUnanswered(t *topology.Topology, nodes []topology.Node) error {
	err := explainUnanswered(t, "log", nodes)
	if first := t.Leader(c.self.DC); slices.Contains(nodes, first) {
		return fmt.Errorf("%w; if the log of %s is lost, give that up first", err, nameParts(t, []topology.Node{first}))
	}
	return err
}

// explainDamagedLog says why a coordinator does not start, if the reason is that its log lacks what it had
// acknowledged. Other errors are returned as they are.
func explainDamagedLog(err error) error {
	if _, ok := errors.AsType[*wal.CorruptError](err); !ok {
		return err
	}
	return inState(contract.StateDataLost, fmt.Errorf("data lost: %w", err))
}
