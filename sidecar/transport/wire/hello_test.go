package wire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func TestAHelloSurvives(t *testing.T) {
	want := &Hello{
		Protocol: 3, MinProtocol: 2, Process: "orders-coordinator-0", Incarnation: 1 << 60, Link: 9, TopologyEpoch: 4,
		StartedMs: 1 << 40, Renews: true,
		Manifest: Manifest{DataCenters: 1 << 63, Rings: 2, Binding: 3}, Version: "v1.2.3", Roots: Roots{1, 1 << 63},
		Announcement: Announcement{causal.Leadership{Epoch: 1 << 63, Life: 1}, 1 << 62},
		Nodes:        []topology.Node{{}, {Part: topology.Sidecar, DC: 65535, Index: 1 << 63}},
	}
	got, err := DecodeHello(AppendHello(nil, want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func manyRoots(n int) (r Roots) {
	for i := range n {
		r = append(r, uint64(i))
	}
	return r
}

func TestRootsSurviveBesideMessagesAndProbes(t *testing.T) {
	for _, roots := range []Roots{nil, {}, {7}, manyRoots(MaxRoots)} {
		b := AppendProbe(AppendRoots(appendBatch(nil, []causal.Message{full()}), roots), ProbeRequest)
		messages, got, err := DecodeFrame(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := Control{Probe: ProbeRequest, Roots: roots, Memory: got.Memory}
		if diff := cmp.Diff(want, got); diff != "" || len(messages) != 1 {
			t.Errorf("%v: %d messages, %s", roots, len(messages), diff)
		}
	}
	if _, _, err := DecodeFrame(AppendRoots(nil, manyRoots(MaxRoots+1)), nil); err == nil {
		t.Error("too many roots are taken")
	}
}

func TestAnAnnouncementSurvivesBesideMessages(t *testing.T) {
	for _, want := range []Announcement{{}, {Number: 1}, {causal.Leadership{Epoch: 7, Life: 1 << 63}, 1 << 63}} {
		messages, got, err := DecodeFrame(appendBatch(AppendAnnouncement(nil, want), []causal.Message{full()}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.Announcement != want || len(messages) != 1 {
			t.Errorf("%d messages and %+v, want %+v", len(messages), got, want)
		}
	}
}

func TestABadAnnouncementIsRefused(t *testing.T) {
	for _, body := range [][]byte{
		{},                       // no number
		{0x08, 0x01},             // an epoch, and no number
		{0x18, 0x00},             // the number 0
		{0x09, 1, 2, 3, 4, 5, 6}, // an epoch that is no varint
		{0x18},
	} {
		for name, b := range map[string][]byte{
			"frame": protowire.AppendBytes([]byte{fFrameAnnouncement<<3 | 2}, body),
			"hello": protowire.AppendBytes([]byte{fFrameHello<<3 | 2},
				protowire.AppendBytes([]byte{fHelloAnnounced<<3 | 2}, body)),
		} {
			_, errHello := DecodeHello(b)
			if _, _, err := DecodeFrame(b, nil); name == "frame" && err == nil || name == "hello" && errHello == nil {
				t.Errorf("%s: %x was taken", name, body)
			}
		}
	}
}

func TestAFrameOfMessagesIsNoHello(t *testing.T) {
	if _, err := DecodeHello(appendBatch(nil, []causal.Message{full()})); err == nil ||
		!strings.Contains(err.Error(), "no hello") {
		t.Errorf("got %v", err)
	}
}

func TestABadHelloIsRefused(t *testing.T) {
	for _, b := range [][]byte{
		{0x0a, 0x05},
		AppendHello(nil, &Hello{Process: "\xff"}),
		AppendHello(nil, &Hello{Process: strings.Repeat("x", 257)}),
		AppendHello(nil, &Hello{Version: "\xff"}),
		AppendHello(nil, &Hello{Version: strings.Repeat("x", MaxVersion+1)}),
		{0x0a, 0x04, 0x52, 0x02, 0x08, 0x01}, // a hash that is no fixed64
		AppendHello(nil, &Hello{Roots: Roots{2, 1}}),
		AppendHello(nil, &Hello{Roots: Roots{1, 1}}),
		AppendHello(nil, &Hello{Roots: manyRoots(MaxRoots + 1)}),
	} {
		if _, err := DecodeHello(b); err == nil {
			t.Errorf("%x was taken", b)
		}
	}
}

func TestProcessesUnderstandEachOtherWhenTheirProtocolRangesMeet(t *testing.T) {
	for _, c := range []struct {
		protocol, min uint32
		ok            bool
	}{
		{Protocol, MinProtocol, true},
		{Protocol + 1, MinProtocol, true},
		{Protocol + 1, Protocol + 1, false},
		{MinProtocol - 1, 0, false},
	} {
		if err := (&Hello{Protocol: c.protocol, MinProtocol: c.min}).Compatible(); (err == nil) != c.ok {
			t.Errorf("protocol %d, oldest %d: %v", c.protocol, c.min, err)
		}
	}
}
