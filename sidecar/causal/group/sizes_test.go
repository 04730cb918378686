package group

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// The greatest record that a log takes is sent in a frame of its own. A frame of several is much smaller.
func TestAFrameWithTheGreatestRecordFitsAMessage(t *testing.T) {
	o := DefaultOptions(ID{"a", 1})
	stamp := Stamp{math.MaxUint64, math.MaxUint64}
	f := &Frame{Session: stamp, Cluster: strings.Repeat("c", 64), Position: math.MaxUint64, Stamp: stamp,
		Commit: math.MaxUint64, Base: math.MaxUint64,
		Number: math.MaxUint64, Acked: math.MaxUint64, SentAt: math.MinInt64,
		Records: []Record{{Stamp: stamp, Data: make([]byte, o.MaxRecordBytes)}},
		Config:  Config{Replaced: slices.Repeat([]uint64{math.MaxUint64}, maxReplaced)}}
	for len(f.Config.appendTo(nil)) < maxValueBytes {
		f.Config.Members = append(f.Config.Members, ID{strings.Repeat("n", 200), math.MaxUint64})
	}
	m := Message{From: ID{"a", math.MaxUint64}, To: ID{"b", math.MaxUint64}, Body: f}
	node := topology.Node{Part: topology.Coordinator, Member: 1}
	if sent := (causal.GroupMessage{Body: m.AppendTo(nil)}).Message(node, node); !sent.FitsMessage() {
		t.Errorf("it may take %d bytes, of %d", sent.MaxEncodedSize(), causal.MaxMessageBytes)
	}
	if o.MaxRecordBytes < 20<<20+100<<10 || o.MaxFrameBytes > o.MaxRecordBytes {
		t.Errorf("a record of a version that accepted puts of 20 MiB does not fit: the limit is %d", o.MaxRecordBytes)
	}
}
