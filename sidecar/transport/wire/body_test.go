package wire

import (
	"bytes"
	"encoding/binary"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// bodyFiller is a causal.BodyVisitor that gives each field a value that is not zero, or only the one with a number.
type bodyFiller struct {
	only   int32 // 0: each
	fields int
}

func (b *bodyFiller) skips(f causal.BodyField) bool {
	b.fields++
	return b.only != 0 && b.only != f.Number
}

func (b *bodyFiller) Number(f causal.BodyField, _ uint64) (uint64, bool) {
	if b.skips(f) {
		return 0, false
	}
	return min(f.Max, 1<<40) - 3, true
}

func (b *bodyFiller) Time(f causal.BodyField, p *causal.HLC)        { fillField(b, f, p) }
func (b *bodyFiller) Flag(f causal.BodyField, p *bool)              { fillField(b, f, p) }
func (b *bodyFiller) Text(f causal.BodyField, p *string)            { fillField(b, f, p) }
func (b *bodyFiller) Bytes(f causal.BodyField, p *[]byte)           { fillField(b, f, p) }
func (b *bodyFiller) Record(f causal.BodyField, p *causal.Record)   { fillField(b, f, p) }
func (b *bodyFiller) Records(f causal.BodyField, p *[]causal.Moved) { fillField(b, f, p) }
func (b *bodyFiller) Versions(f causal.BodyField, p *[]causal.Version) {
	fillField(b, f, p)
}
func (b *bodyFiller) Deps(f causal.BodyField, p *[]causal.Dep) { fillField(b, f, p) }

func fillField[T any](b *bodyFiller, f causal.BodyField, p *T) {
	if !b.skips(f) {
		fillAll(reflect.ValueOf(p).Elem())
	}
}

// filledBody returns a body of a kind with all fields, or one of them, and how many there are.
func filledBody(k causal.Kind, only int32) (causal.Body, int) {
	b := causal.NewBody(k)
	f := bodyFiller{only: only}
	b.Visit(&f)
	return b, f.fields
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

func TestEveryBodySurvivesWithAndWithoutABodyOnTheWire(t *testing.T) {
	tried := 0
	eachBody(func(name string, want causal.Message) {
		tried++
		for _, without := range []bool{false, true} {
			b := Batch{WithoutBodies: without}
			b.Add(&want)
			got, _, err := DecodeFrame(b.Buf, nil)
			if err != nil {
				t.Fatalf("%s, without bodies %v: %v", name, without, err)
			}
			if diff := cmp.Diff(want, got[0], exported); diff != "" {
				t.Errorf("%s, without bodies %v (-sent +received):\n%s", name, without, diff)
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

// In testdata are messages of all kinds that simulated parts of the last version with link protocol 1 have sent.
func TestMessagesOfProtocol1AreReadAndWritten(t *testing.T) {
	b, err := os.ReadFile("testdata/protocol-1.messages")
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
		shared := m.WithoutBody()
		if got := Append(nil, &shared); !bytes.Equal(got, recorded) {
			t.Errorf("%s is written as %x; it was %x", m.Kind, got, recorded)
		}
		if err := Decode(Append(nil, &m), &again); err != nil || !cmp.Equal(m, again, exported) {
			t.Errorf("%s with a body, %v (-sent +received):\n%s", m.Kind, err, cmp.Diff(m, again, exported))
		}
	}
	for k := causal.KindNone + 1; k < causal.KindAdoptState+1; k++ {
		if !kinds[k] {
			t.Errorf("no message of kind %s was recorded", k)
		}
	}
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
		names := bodyNames{of: map[int32]string{}}
		b.Visit(&names)
		for n, name := range names.of {
			if f := f.Message().Fields().ByNumber(protowire.Number(n)); f == nil || string(f.Name()) != name {
				t.Errorf("field %d of %s is %q, and %v in wire.proto", n, k, name, f)
			}
		}
	}
}

// bodyNames is a causal.BodyVisitor that collects the names of fields by number.
type bodyNames struct{ of map[int32]string }

func (b *bodyNames) Number(f causal.BodyField, _ uint64) (uint64, bool) {
	b.of[f.Number] = f.Name
	return 0, false
}
func (b *bodyNames) Time(f causal.BodyField, _ *causal.HLC)           { b.of[f.Number] = f.Name }
func (b *bodyNames) Flag(f causal.BodyField, _ *bool)                 { b.of[f.Number] = f.Name }
func (b *bodyNames) Text(f causal.BodyField, _ *string)               { b.of[f.Number] = f.Name }
func (b *bodyNames) Bytes(f causal.BodyField, _ *[]byte)              { b.of[f.Number] = f.Name }
func (b *bodyNames) Record(f causal.BodyField, _ *causal.Record)      { b.of[f.Number] = f.Name }
func (b *bodyNames) Records(f causal.BodyField, _ *[]causal.Moved)    { b.of[f.Number] = f.Name }
func (b *bodyNames) Versions(f causal.BodyField, _ *[]causal.Version) { b.of[f.Number] = f.Name }
func (b *bodyNames) Deps(f causal.BodyField, _ *[]causal.Dep)         { b.of[f.Number] = f.Name }

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
		"size":         causal.GroupMessage{Body: make([]byte, MaxMessage)}.Message(node, node),
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

// drawBody is a causal.BodyVisitor that draws the fields of a body.
type drawBody struct{ t *rapid.T }

func (d drawBody) Number(f causal.BodyField, _ uint64) (uint64, bool) {
	return rapid.Uint64Max(f.Max).Draw(d.t, f.Name), true
}
func (d drawBody) Time(f causal.BodyField, p *causal.HLC) {
	*p = causal.HLC(rapid.Uint64().Draw(d.t, f.Name))
}
func (d drawBody) Flag(f causal.BodyField, p *bool) { *p = rapid.Bool().Draw(d.t, f.Name) }
func (d drawBody) Text(f causal.BodyField, p *string) {
	*p = string(rapid.SliceOf(rapid.Byte()).Draw(d.t, f.Name))
}
func (d drawBody) Bytes(f causal.BodyField, p *[]byte) { *p = list(d.t, f.Name, rapid.Byte(), 300) }
func (d drawBody) Record(f causal.BodyField, p *causal.Record) {
	*p = causal.Record{Version: version().Draw(d.t, f.Name)}
}
func (d drawBody) Records(f causal.BodyField, p *[]causal.Moved) {
	for _, v := range list(d.t, f.Name, version(), 5) {
		*p = append(*p, causal.Moved{Key: "k", Record: causal.Record{Version: v}})
	}
}
func (d drawBody) Versions(f causal.BodyField, p *[]causal.Version) {
	*p = list(d.t, f.Name, version(), 20)
}
func (d drawBody) Deps(f causal.BodyField, p *[]causal.Dep) {
	for _, v := range list(d.t, f.Name, version(), 20) {
		*p = append(*p, causal.Dep{Version: v, Slot: topology.Slots - 1})
	}
}
