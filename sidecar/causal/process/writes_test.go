package process

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/topology"
)

// legacyBytes is the size of a value that earlier versions have accepted, and that fits a message alone.
const legacyBytes = 20<<20 - 400

// A group is one record of the log of a shard with several members, which is sent to them in one message.
func TestTheWritesThatShareACallFitAMessage(t *testing.T) {
	node := topology.Node{Part: topology.Middleman}
	for name, sizes := range map[string][]int{
		"the greatest value behind smaller ones": {4 << 20, 3 << 20, causal.MaxValueBytes, 1},
		"the greatest values":                    {causal.MaxValueBytes, causal.MaxValueBytes},
		"a value of an earlier version":          {maxGroupBytes - 100, legacyBytes},
	} {
		var w writes
		for i, size := range sizes {
			w.queue = append(w.queue, middleman.StorageOp{ID: uint64(i), Kind: middleman.StorageWrite, Key: "k",
				Record: causal.Record{Version: causal.Version{HLC: 1, Origin: 1},
					Value: causal.Value{Data: make([]byte, size)}}})
		}
		for taken := 0; taken < len(sizes); {
			w.take()
			if len(w.group) == 0 || w.group[0].ID != uint64(taken) {
				t.Fatalf("%s: after %d: %d are taken", name, taken, len(w.group))
			}
			taken += len(w.group)
			var c member.Change
			for _, op := range w.group {
				c.Writes = append(c.Writes, causal.Write{Key: op.Key, Record: op.Record})
			}
			if m := (causal.GroupMessage{Body: c.AppendTo(nil)}).Message(node, node); !m.FitsMessage() {
				t.Errorf("%s: %d writes make a message of %d bytes", name, len(w.group), m.MaxEncodedSize())
			}
		}
	}
}
