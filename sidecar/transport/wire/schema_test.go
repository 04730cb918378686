package wire

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// schema reads wire.proto, as far as that file goes: flat messages with one field in a line.
func schema(t *testing.T) protoreflect.FileDescriptor {
	t.Helper()
	text, err := os.ReadFile("wire.proto")
	if err != nil {
		t.Fatal(err)
	}
	file := &descriptorpb.FileDescriptorProto{Name: new("wire.proto"), Package: new("causalstore.v1"),
		Syntax: new("proto3")}
	open := regexp.MustCompile(`^message (\w+) \{`)
	field := regexp.MustCompile(`^  (repeated )?(\w+) (\w+) = (\d+);`)
	var msg *descriptorpb.DescriptorProto
	for line := range strings.Lines(string(text)) {
		if m := open.FindStringSubmatch(line); m != nil {
			msg = &descriptorpb.DescriptorProto{Name: &m[1]}
			file.MessageType = append(file.MessageType, msg)
		} else if m := field.FindStringSubmatch(line); m != nil {
			number, _ := strconv.Atoi(m[4])
			f := &descriptorpb.FieldDescriptorProto{Name: &m[3], Number: new(int32(number)),
				Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
			if m[1] != "" {
				f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			}
			if typ, ok := descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+strings.ToUpper(m[2])]; ok &&
				m[2] == strings.ToLower(m[2]) {
				f.Type = descriptorpb.FieldDescriptorProto_Type(typ).Enum()
			} else {
				f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), new(".causalstore.v1."+m[2])
			}
			msg.Field = append(msg.Field, f)
		}
	}
	d, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// complete fails the test where m holds unknown fields or lacks known ones.
func complete(t *testing.T, m protoreflect.Message, path string, skip ...string) {
	t.Helper()
	if len(m.GetUnknown()) > 0 {
		t.Errorf("%s: bytes that wire.proto does not explain: %x", path, m.GetUnknown())
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name := path + "." + string(f.Name())
		switch {
		case slices.Contains(skip, string(f.Name())):
		case !m.Has(f):
			t.Errorf("%s is in wire.proto and was not written", name)
		case f.IsList() && f.Message() != nil:
			for j := range m.Get(f).List().Len() {
				complete(t, m.Get(f).List().Get(j).Message(), name, skip...)
			}
		case f.Message() != nil:
			complete(t, m.Get(f).Message(), name, skip...)
		}
	}
}

func TestAnOrdinaryProtobufReaderUnderstandsFramesByTheSchemaFile(t *testing.T) {
	file := schema(t)
	frame := dynamicpb.NewMessage(file.Messages().ByName("Frame"))
	want, announcement := full(), Announcement{causal.Leadership{Epoch: 3, Life: 4}, 5}
	if err := proto.Unmarshal(
		AppendAnnouncement(AppendRoots(AppendProbe(appendBatch(nil, []causal.Message{want}), ProbeRequest),
			Roots{1, 2}), announcement), frame); err != nil {
		t.Fatal(err)
	}
	skip := []string{"hello", "former_latencies", "former_moved"}
	for fields, i := file.Messages().ByName("Message").Fields(), 0; i < fields.Len(); i++ {
		if fields.Get(i).Number() > fBody {
			skip = append(skip, string(fields.Get(i).Name()))
		}
	}
	complete(t, frame, "frame", skip...)

	m := frame.Get(frame.Descriptor().Fields().ByName("messages")).List().Get(0).Message()
	get := func(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
		return m.Get(m.Descriptor().Fields().ByName(name))
	}
	if got := get(m, "duration").Int(); got != want.Fields().Duration {
		t.Errorf("duration %d", got)
	}
	if got := get(m, "hlc").Uint(); got != uint64(want.Fields().HLC) {
		t.Errorf("hlc %d", got)
	}
	if got := get(m, "to").List(); got.Len() != 4 || got.Get(0).Uint() != uint64(want.To.Part) ||
		got.Get(1).Uint() != uint64(want.To.DC) || got.Get(2).Uint() != want.To.Index ||
		got.Get(3).Uint() != uint64(want.To.Member) {
		t.Errorf("to %v", got)
	}
	if got := get(get(m, "record").Message(), "expire_at_ms").Int(); got != want.Fields().Record.Value.ExpireAtMs {
		t.Errorf("expire_at_ms %d", got)
	}
	var back causal.Message
	b, err := proto.Marshal(m.Interface())
	if err != nil {
		t.Fatal(err)
	}
	if err := Decode(b, &back); err != nil {
		t.Errorf("what an ordinary protobuf writer makes of it is refused: %v", err)
	}
}

func TestAnOrdinaryProtobufReaderUnderstandsHellosByTheSchemaFile(t *testing.T) {
	frame := dynamicpb.NewMessage(schema(t).Messages().ByName("Frame"))
	h := &Hello{Protocol: 1, MinProtocol: 1, Process: "p", Incarnation: 2, Link: 3, TopologyEpoch: 4, StartedMs: 5,
		Renews: true, Manifest: Manifest{6, 7, 8}, Version: "v9", Roots: Roots{10, 11},
		Announcement: Announcement{causal.Leadership{Epoch: 3, Life: 4}, 5},
		Nodes:        []topology.Node{{Index: 1, DC: 2, Part: 3, Member: 2}}}
	if err := proto.Unmarshal(AppendHello(nil, h), frame); err != nil {
		t.Fatal(err)
	}
	complete(t, frame, "frame", "messages", "probe", "roots", "announcement")
}
