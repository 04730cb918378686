package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// filledBody returns a body of a kind in which each field has a value that is not zero, or only the one with a number,
// and how many there are.
func filledBody(k causal.Kind, only int32) (b causal.Body, fields int) {
	if b = causal.NewBody(k); b == nil {
		return nil, 0
	}
	b.Visit(causal.VisitorFunc(func(f causal.BodyField, p any) {
		fields++
		if only != 0 && only != f.Number {
			return
		}
		switch p := p.(type) {
		case *uint64:
			*p = min(f.Max, 1<<40) - 3
		case causal.BodyParts:
			fillParts(p.List())
		default:
			fillAll(reflect.ValueOf(p).Elem())
		}
	}))
	return b, fields
}

// shared returns m without the fields of its body that were added since its kind has one.
func shared(m causal.Message) causal.Message {
	b := causal.NewBody(m.Kind)
	reflect.ValueOf(b).Elem().Set(reflect.ValueOf(m.Body()).Elem())
	b.Visit(causal.VisitorFunc(func(f causal.BodyField, p any) {
		if f.IsShared() {
			return
		}
		if parts, ok := p.(causal.BodyParts); ok {
			p = parts.List()
		}
		reflect.ValueOf(p).Elem().SetZero()
	}))
	m.SetBody(b)
	return m
}

// fillParts sets a list of parts, given as a pointer to it, to one that link protocol 1 has a form for.
func fillParts(list any) {
	switch list := list.(type) {
	case *[]causal.ShardMark:
		*list = []causal.ShardMark{{DC: 1, Index: 2, Incarnation: 1 << 60, HasData: true, Lost: 5},
			{DC: 1, Index: math.MaxUint16, Incarnation: 6, HasData: true, Lost: 7}}
	case *[]causal.KeyRange:
		*list = []causal.KeyRange{{From: "a", To: "b\xff"}, {From: "c", To: "d"}}
	default:
		fillAll(reflect.ValueOf(list).Elem())
	}
}

// eachBody calls f with a message of each kind that has a body: with all fields, and with each of them alone.
func eachBody(f func(name string, m causal.Message)) {
	for k := causal.KindNone; k < causal.NumKinds; k++ {
		if causal.NewBody(k) == nil {
			continue
		}
		_, fields := filledBody(k, 0)
		for n := range int32(fields + 1) {
			m := causal.Message{Kind: k, From: topology.Node{Index: 1}}
			b, _ := filledBody(k, n)
			m.SetBody(b)
			m.Fields().Exclusions = causal.Exclusions{0, 1}
			f(k.String(), m)
		}
	}
}

func TestEveryBodySurvivesInEachLinkProtocol(t *testing.T) {
	tried := 0
	eachBody(func(name string, want causal.Message) {
		tried++
		for protocol := uint32(MinProtocol); protocol <= Protocol; protocol++ {
			b := Batch{Protocol: protocol}
			b.Add(&want)
			got, _, err := DecodeFrame(b.Buf, nil)
			if err != nil {
				t.Fatalf("%s, protocol %d: %v", name, protocol, err)
			}
			want := want
			if protocol < causal.BodySince(want.Kind) {
				want = shared(want)
			}
			if diff := cmp.Diff(want, got[0], exported); diff != "" {
				t.Errorf("%s, protocol %d (-sent +received):\n%s", name, protocol, diff)
			}
			if size, most := len(Append(nil, &want)), want.MaxEncodedSize(); size > most {
				t.Errorf("%s: %d bytes are more than the bound of %d", name, size, most)
			}
		}
	})
	if tried < 100 {
		t.Errorf("only %d messages were tried", tried)
	}
}

// In testdata are messages of all kinds that simulated parts have sent: as the last version with link protocol 1, and
// the last one with link protocol 2, encodes them.
func TestMessagesOfEarlierProtocolsAreReadAndWritten(t *testing.T) {
	for protocol := uint32(MinProtocol); protocol < Protocol; protocol++ {
		b, err := os.ReadFile(fmt.Sprintf("testdata/protocol-%d.messages", protocol))
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[causal.Kind]bool{}
		for len(b) > 0 {
			size, n := binary.Uvarint(b)
			recorded := b[n : n+int(size)]
			b = b[n+int(size):]
			var m, again causal.Message
			if err := Decode(recorded, &m); err != nil {
				t.Fatal(err)
			}
			if (m.Body() != nil) != (causal.NewBody(m.Kind) != nil) {
				t.Fatalf("%s: its body is %v", m.Kind, m.Body())
			}
			kinds[m.Kind] = true
			if got := appendFor(protocol, &m); !bytes.Equal(got, recorded) {
				t.Errorf("protocol %d: %s is written as %x; it was %x", protocol, m.Kind, got, recorded)
			}
			if err := Decode(Append(nil, &m), &again); err != nil || !cmp.Equal(m, again, exported) {
				t.Errorf("%s with a body, %v (-sent +received):\n%s", m.Kind, err, cmp.Diff(m, again, exported))
			}
		}
		for k := causal.KindNone + 1; k < causal.KindAdoptState+1; k++ {
			if !kinds[k] {
				t.Errorf("no message of kind %s was recorded with protocol %d", k, protocol)
			}
		}
	}
}

// appendFor returns a message as a frame for a reader with a link protocol has it.
func appendFor(protocol uint32, m *causal.Message) []byte {
	if m.Body() != nil && causal.BodySince(m.Kind) > protocol {
		return appendWithoutBody(nil, m, topology.Node{}, topology.Node{})
	}
	return Append(nil, m)
}

func TestAnOrdinaryProtobufReaderUnderstandsBodiesByTheSchemaFile(t *testing.T) {
	file := schema(t)
	message := file.Messages().ByName("Message")
	for k := causal.KindNone; k < causal.NumKinds; k++ {
		if causal.NewBody(k) == nil {
			if f := message.Fields().ByNumber(protowire.Number(fBody + int(k))); f != nil {
				t.Errorf("wire.proto has a body of %s", k)
			}
			continue
		}
		m := causal.Message{Kind: k}
		b, _ := filledBody(k, 0)
		m.SetBody(b)
		got := dynamicpb.NewMessage(message)
		if err := proto.Unmarshal(Append(nil, &m), got); err != nil {
			t.Fatal(err)
		}
		f := message.Fields().ByNumber(protowire.Number(fBody + int(k)))
		if f == nil || len(got.GetUnknown()) > 0 || !got.Has(f) {
			t.Errorf("wire.proto has no body of %s, or not under its number", k)
			continue
		}
		complete(t, got.Get(f).Message(), k.String())
		checkNames(t, k.String(), b, f.Message())
	}
}

// checkNames asserts that fields of a body, and of its parts, have the names that wire.proto gives them.
func checkNames(t *testing.T, where string, b causal.Body, message protoreflect.MessageDescriptor) {
	t.Helper()
	b.Visit(causal.VisitorFunc(func(f causal.BodyField, p any) {
		field := message.Fields().ByNumber(protowire.Number(f.Number))
		if field == nil || string(field.Name()) != f.Name {
			t.Errorf("field %d of %s is %q, and %v in wire.proto", f.Number, where, f.Name, field)
			return
		}
		if parts, ok := p.(causal.BodyParts); ok {
			checkNames(t, where+"."+f.Name, parts.At(0), field.Message())
		}
	}))
}

func TestNoBodyIsLargerThanTheLargest(t *testing.T) {
	for k := causal.KindNone; k < causal.NumKinds; k++ {
		if b := causal.NewBody(k); b != nil && int(reflect.TypeOf(b).Elem().Size()) > largestBody {
			t.Errorf("that of %s has %d bytes; the largest is said to have %d", k, reflect.TypeOf(b).Elem().Size(),
				largestBody)
		}
	}
}

func TestABodyOfAnotherKindOrASecondOneIsRefused(t *testing.T) {
	one := causal.AdoptQuery{ID: 1}.Message(topology.Node{}, topology.Node{})
	two := causal.PastQuery{ID: 1}.Message(topology.Node{}, topology.Node{})
	var m causal.Message
	for name, b := range map[string][]byte{
		"another kind": appendUint(Append(nil, &one), fKind, uint64(causal.KindPastQuery)),
		"two bodies":   append(Append(nil, &one), Append(nil, &two)...),
		"twice":        append(Append(nil, &one), Append(nil, &one)...),
	} {
		if Decode(b, &m) == nil {
			t.Errorf("%s is read", name)
		}
	}
}

func TestACheckOfABodyRefusesWhatAReaderWould(t *testing.T) {
	node := topology.Node{}
	for name, m := range map[string]causal.Message{
		"dependencies": causal.AdoptPut{Deps: make([]causal.Dep, causal.MaxDeps+1)}.Message(node, node),
		"slot":         causal.AdoptPut{Deps: []causal.Dep{{Slot: topology.Slots}}}.Message(node, node),
		"one slot":     causal.DepProbe{Dep: causal.Dep{Slot: topology.Slots}}.Message(node, node),
		"size":         causal.GroupMessage{Body: make([]byte, MaxMessage)}.Message(node, node),
		"names":        causal.ScanReply{Keys: make([]string, MaxList+1)}.Message(node, node),
		"parts":        causal.Latencies{RoundTrips: make([]causal.RoundTrip, MaxList+1)}.Message(node, node),
		"rings": causal.SignedVectors{Entries: []causal.VectorEntry{
			{RV: make([]causal.HLC, topology.MaxRings+1)}}}.Message(node, node),
	} {
		if Check(&m) == nil {
			t.Errorf("%s: not refused", name)
		}
		var got causal.Message
		if Decode(Append(nil, &m), &got) == nil {
			t.Errorf("%s: read", name)
		}
	}
}

// drawBody returns a visitor that draws the fields of a body.
func drawBody(t *rapid.T) causal.VisitorFunc {
	return func(f causal.BodyField, p any) {
		switch p := p.(type) {
		case *uint64:
			*p = rapid.Uint64Max(f.Max).Draw(t, f.Name)
		case *causal.HLC:
			*p = causal.HLC(rapid.Uint64().Draw(t, f.Name))
		case *bool:
			*p = rapid.Bool().Draw(t, f.Name)
		case *float64:
			*p = rapid.Float64().Draw(t, f.Name)
		case *string:
			*p = string(rapid.SliceOf(rapid.Byte()).Draw(t, f.Name))
		case *[]string:
			*p = list(t, f.Name, rapid.String(), 5)
		case *[]byte:
			*p = list(t, f.Name, rapid.Byte(), 300)
		case *causal.Record:
			*p = causal.Record{Version: version().Draw(t, f.Name)}
		case *[]causal.Moved:
			for _, v := range list(t, f.Name, version(), 5) {
				*p = append(*p, causal.Moved{Key: "k", Record: causal.Record{Version: v}})
			}
		case *causal.Version:
			*p = version().Draw(t, f.Name)
		case *[]causal.Version:
			*p = list(t, f.Name, version(), 20)
		case *causal.Dep:
			*p = causal.Dep{Version: version().Draw(t, f.Name), Slot: topology.Slots - 1}
		case *[]causal.Dep:
			for _, v := range list(t, f.Name, version(), 20) {
				*p = append(*p, causal.Dep{Version: v, Slot: topology.Slots - 1})
			}
		case *[]causal.VectorEntry:
			*p = list(t, f.Name, vector(), 5)
		case causal.BodyParts:
			for range rapid.IntRange(0, 5).Draw(t, f.Name) {
				p.Add().Visit(drawBody(t))
			}
		}
	}
}
