package process

import (
	"errors"
	"fmt"
	"strings"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/wal"
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

// explainLostStorage says why a middleman refuses reads.
func explainLostStorage(t *topology.Topology, known []topology.Node) error {
	because := "this was found at an earlier start"
	if len(known) > 0 {
		because = nameParts(t, known) + " had acknowledgements of it"
	}
	return fmt.Errorf("data lost: the storage is without data that it had acknowledged (%s); reads are refused here and served by other "+
		"rings; see docs/disasters.md, A shard has lost its data", because)
}

// explainLostLog says why a coordinator refuses writes.
func explainLostLog(t *topology.Topology, known []topology.Node) error {
	return fmt.Errorf("data lost: the log is empty, but %s know of writes that it held; to start anew would make the rings differ for ever, so no "+
		"write is accepted; give it back its dataDir, or give its log up, see docs/disasters.md, A coordinator has lost its log", nameParts(t, known))
}

// explainDamagedLog says why a coordinator does not start, if the reason is that its log lacks what it had acknowledged. Other
// errors are returned as they are.
func explainDamagedLog(err error) error {
	if _, ok := errors.AsType[*wal.CorruptError](err); !ok {
		return err
	}
	return inState(contract.StateDataLost, fmt.Errorf("data lost: %w", err))
}
