package wire

import (
	"bytes"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func TestEveryFieldOfAMessageSurvivesOnItsOwn(t *testing.T) {
	fields := 0
	each(func(path string, want causal.Message) {
		fields++
		var got causal.Message
		if err := Decode(Append(nil, &want), &got); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if diff := cmp.Diff(want, got, exported); diff != "" {
			t.Errorf("%s is not carried (-sent +received):\n%s", path, diff)
		}
	})
	if fields < 30 {
		t.Fatalf("only %d fields were tried: the walk over causal.Message is broken", fields)
	}
}

func TestAnyMessageSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := message().Draw(t, "message")
		prefix := []byte("before")
		b := Append(slices.Clone(prefix), &want)
		got := full() // what was there before must not shine through
		if err := Decode(b[len(prefix):], &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, exported); diff != "" || !bytes.HasPrefix(b, prefix) {
			t.Fatalf("(-sent +received):\n%s", diff)
		}
	})
}

// exported lets cmp see the fields of messages.
var exported = cmp.AllowUnexported(causal.Message{}, causal.DepList{})

func withFields(f causal.Fields) (m causal.Message) {
	*m.Fields() = f
	return m
}

func TestABatchSurvivesWithItsRoutesInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(message(), 1, 8).Draw(t, "batch")
		for i := range want[1:] {
			if rapid.Bool().Draw(t, "same route") {
				want[i+1].From, want[i+1].To = want[i].From, want[i].To
			}
		}
		kept := withFields(causal.Fields{ID: 99})
		got, _, err := DecodeFrame(appendBatch(nil, want), []causal.Message{kept})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append([]causal.Message{kept}, want...), got, exported); diff != "" {
			t.Fatalf("(-sent +received):\n%s", diff)
		}
	})
}

func TestTheZeroMessageTakesNoBytes(t *testing.T) {
	if b := Append(nil, &causal.Message{}); len(b) != 0 {
		t.Errorf("%x", b)
	}
}

func TestAFrameNamesItsRouteOnce(t *testing.T) {
	m := causal.Message{Kind: causal.KindStable, From: topology.Node{Part: topology.Coordinator, DC: 3, Index: 1},
		To: topology.Node{Part: topology.Middleman, DC: 5, Index: 2}}
	one, three := len(appendBatch(nil, []causal.Message{m})), len(appendBatch(nil, []causal.Message{m, m, m}))
	if three-one >= 2*one/2 {
		t.Errorf("one message takes %d bytes, three take %d", one, three)
	}
}

func TestTheLengthOfAMessageIsRightWhateverTheGuessWas(t *testing.T) {
	for _, n := range []int{0, 40, 80, 90, 120, 127, 128, 16250, 16300, 16340, 16383, 16384, 2 << 20} {
		want := []causal.Message{withFields(causal.Fields{Key: strings.Repeat("k", n), HLC: 1}),
			withFields(causal.Fields{ID: 7})}
		got, _, err := DecodeFrame(appendBatch(nil, want), nil)
		if err != nil {
			t.Fatalf("key of %d: %v", n, err)
		}
		if !cmp.Equal(want, got, exported) {
			t.Fatalf("key of %d came back otherwise", n)
		}
	}
	for _, guess := range []int{0, 127, 128, 16383, 16384, 3 << 20} {
		for _, length := range []int{0, 127, 128, 16383, 16384} {
			b, start := openBytes([]byte("x"), guess)
			b = closeBytes(append(b, bytes.Repeat([]byte{9}, length)...), start, guess)
			v, n := protowire.ConsumeBytes(b[1:])
			if n != len(b)-1 || len(v) != length || bytes.Count(v, []byte{9}) != length {
				t.Fatalf("guess %d, length %d: read %d bytes of %d", guess, length, len(v), n)
			}
		}
	}
}

func TestDecodedMessagesShareNoMemoryWithTheInput(t *testing.T) {
	want := full()
	b := appendBatch(nil, []causal.Message{want})
	got, _, err := DecodeFrame(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = 0xEE
	}
	if diff := cmp.Diff(want, got[0], exported); diff != "" {
		t.Fatal(diff)
	}
}

// unknownFields are what a later version may add, one of each wire type, with numbers beyond those in use.
func unknownFields(dst []byte) []byte {
	dst = protowire.AppendVarint(protowire.AppendTag(dst, 1500, protowire.VarintType), math.MaxUint64)
	dst = protowire.AppendFixed32(protowire.AppendTag(dst, 1101, protowire.Fixed32Type), 1)
	dst = protowire.AppendFixed64(protowire.AppendTag(dst, 1102, protowire.Fixed64Type), 1)
	dst = protowire.AppendBytes(protowire.AppendTag(dst, 1103, protowire.BytesType), []byte("later"))
	dst = protowire.AppendTag(dst, 1104, protowire.StartGroupType)
	return protowire.AppendTag(dst, 1104, protowire.EndGroupType)
}

// withUnknown adds unknown fields to a message and, going by the numbers of those that hold messages, inside them.
func withUnknown(b []byte, inner map[protowire.Number]bool) []byte {
	dst := unknownFields(nil)
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeField(b)
		if inner[num] {
			_, _, t := protowire.ConsumeTag(b)
			v, _ := protowire.ConsumeBytes(b[t:])
			dst = protowire.AppendBytes(protowire.AppendTag(dst, num, typ), withUnknown(v, nil))
		} else {
			dst = append(dst, b[:n]...)
		}
		b = b[n:]
	}
	return unknownFields(dst)
}

func TestFieldsOfALaterVersionAreSkippedAtEveryDepth(t *testing.T) {
	want := full()
	b := withUnknown(Append(nil, &want), map[protowire.Number]bool{fRecord: true, fDeps: true, fVersions: true,
		fVectors: true})
	frame := unknownFields(nil)
	frame = protowire.AppendBytes(protowire.AppendTag(frame, fFrameMessages, protowire.BytesType), b)
	got, _, err := DecodeFrame(unknownFields(frame), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]causal.Message{want}, got, exported); diff != "" {
		t.Fatal(diff)
	}
}

func TestFieldsOfALaterVersionInABodyAreSkipped(t *testing.T) {
	eachBody(func(name string, want causal.Message) {
		inner := map[protowire.Number]bool{fBody + protowire.Number(want.Kind): true}
		var got causal.Message
		if err := Decode(withUnknown(Append(nil, &want), inner), &got); err != nil || !cmp.Equal(want, got, exported) {
			t.Errorf("%s: %v\n%s", name, err, cmp.Diff(want, got, exported))
		}
	})
}

func TestNoTruncatedOrDamagedFrameMakesTheReaderPanic(t *testing.T) {
	messages := []causal.Message{full(), withFields(causal.Fields{ID: 1})}
	for k := causal.KindNone; k < causal.NumKinds; k++ {
		if causal.NewBody(k) != nil {
			m := causal.Message{Kind: k}
			b, _ := filledBody(k, 0)
			m.SetBody(b)
			messages = append(messages, m)
		}
	}
	b := appendBatch(nil, messages)
	for n := range b {
		if msgs, _, err := DecodeFrame(b[:n], nil); err == nil && len(msgs) == len(messages) {
			t.Fatalf("cut after %d of %d bytes, yet all messages were read", n, len(b))
		}
	}
	for i := range b {
		for _, x := range []byte{0x01, 0x07, 0x80, 0xff} {
			damaged := slices.Clone(b)
			damaged[i] ^= x
			_, _, _ = DecodeFrame(damaged, nil)
		}
	}
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	tag := protowire.AppendTag
	cases := map[string][]byte{
		"wire type is 0, want 1":  protowire.AppendVarint(tag(nil, fHLC, protowire.VarintType), 1),
		"wire type is 2, want 0":  protowire.AppendBytes(tag(nil, fID, protowire.BytesType), nil),
		"exceeds the limit of 25": protowire.AppendVarint(tag(nil, fKind, protowire.VarintType), 256),
		"node with part 300": protowire.AppendBytes(tag(nil, fFrom, protowire.BytesType),
			protowire.AppendVarint(nil, 300)),
		"packed list of 9": protowire.AppendBytes(tag(nil, fLatencies, protowire.BytesType), make([]byte, 9)),
		"limit of 4095": protowire.AppendBytes(tag(nil, fDeps, protowire.BytesType),
			protowire.AppendVarint(tag(nil, fDepSlot, protowire.VarintType), topology.Slots)),
		"65 elements": protowire.AppendBytes(tag(nil, fVectors, protowire.BytesType),
			protowire.AppendBytes(tag(nil, fVectorRV, protowire.BytesType), make([]byte, 8*65))),
		"unexpected EOF":     {fKey<<3 | 2},
		"65537 elements":     protowire.AppendBytes(tag(nil, fLatencies, protowire.BytesType), make([]byte, 8*65537)),
		"lists of more elem": bytes.Repeat(append(tag(nil, fMoved, protowire.BytesType), 0), 1000),
		"invalid field numb": {0x00, 0x00},
	}
	for want, b := range cases {
		if err := Decode(b, new(causal.Message)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want something with %q", err, want)
		}
	}
	if _, _, err := DecodeFrame(bytes.Repeat([]byte{fFrameMessages<<3 | 2, 0}, MaxBatch+1), nil); err == nil {
		t.Error("a frame of too many messages was read")
	}
}

// Else: 20 MiB of elements without content, and a few bytes on each of thousands of links, take all memory.
func TestWhatADecodedFrameTakesIsBoundedByItsSize(t *testing.T) {
	for name, frame := range map[string][]byte{
		"messages": bytes.Repeat([]byte{fFrameMessages<<3 | 2, 0}, MaxBatch),
		"bodies":   bytes.Repeat(appendRaw(appendUint(nil, fKind, uint64(causal.KindAdoptHeld))), MaxBatch),
		"names":    appendRaw(inBody(causal.KindScanReply, 2)),
		"parts":    appendRaw(inBody(causal.KindLatencies, 1)),
		"ranges":   appendRaw(inBody(causal.KindScan, 6)),
		"records":  appendRaw(bytes.Repeat(append(protowire.AppendTag(nil, fMoved, protowire.BytesType), 0), 1<<20)),
		"vectors":  appendRaw(bytes.Repeat(append(protowire.AppendTag(nil, fVectors, protowire.BytesType), 0), 1<<20)),
		"versions": appendRaw(bytes.Repeat(append(protowire.AppendTag(nil, fVersions, protowire.BytesType), 0), 1<<20)),
		"apart": appendRaw(bytes.Repeat(append(append(protowire.AppendTag(nil, fVersions, protowire.BytesType), 0),
			append(protowire.AppendTag(nil, fMoved, protowire.BytesType), 0)...), 1<<18)),
		"apart, many times": bytes.Repeat(
			appendRaw(bytes.Repeat(append(append(protowire.AppendTag(nil, fVersions, protowire.BytesType), 0),
				append(protowire.AppendTag(nil, fMoved, protowire.BytesType), 0)...), 1<<18)), 16),
		"dependencies": bytes.Repeat(
			appendRaw(bytes.Repeat(append(protowire.AppendTag(nil, fDeps, protowire.BytesType), 0), causal.MaxDeps)),
			1000),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			messages, control, err := DecodeFrame(frame, nil)
			runtime.GC()
			runtime.ReadMemStats(&after)
			// A list grows to twice its size at most; what it had before is garbage.
			most := 2 * DecodedBytes(len(frame))
			if took := int64(after.HeapAlloc) - int64(before.HeapAlloc); took > most {
				t.Errorf("a frame of %d bytes takes %d, more than %d", len(frame), took, most)
			}
			if took := int64(after.HeapAlloc) - int64(before.HeapAlloc); err == nil && took > 2*control.Memory {
				t.Errorf("a frame of %d bytes takes %d, and says that it takes %d", len(frame), took, control.Memory)
			}
			if took := int64(after.TotalAlloc - before.TotalAlloc); took > 3*most {
				t.Errorf("to decode a frame of %d bytes took %d, more than %d", len(frame), took, 3*most)
			}
			runtime.KeepAlive(messages)
			runtime.KeepAlive(frame)
		})
	}
}

// inBody returns a message with a body that has many empty elements of a field.
func inBody(k causal.Kind, field protowire.Number) []byte {
	body := bytes.Repeat(append(protowire.AppendTag(nil, field, protowire.BytesType), 0), 1<<20)
	return protowire.AppendBytes(protowire.AppendTag(appendUint(nil, fKind, uint64(k)),
		fBody+protowire.Number(k), protowire.BytesType), body)
}

// appendRaw returns a frame of one message.
func appendRaw(message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, fFrameMessages, protowire.BytesType), message)
}

func TestListsOfTheShortestElementsThatPartsSendAreRead(t *testing.T) {
	for _, n := range []int{1, 10, 1000, 100_000} {
		reply := causal.ScanReply{ID: 1}
		pulled := causal.Pulled{ListEnd: true}
		for range n {
			reply.Keys = append(reply.Keys, "k")
			pulled.Moved = append(pulled.Moved, causal.Moved{Key: "k"})
		}
		for _, m := range []causal.Message{reply.Message(topology.Node{}, topology.Node{}),
			pulled.Message(topology.Node{}, topology.Node{})} {
			var b Batch
			b.Add(&m)
			got, _, err := DecodeFrame(b.Buf, nil)
			if err != nil || len(got[0].ScanReply().Keys)+len(got[0].Pulled().Moved) != n {
				t.Errorf("%s with %d names: %v", m.Kind, n, err)
			}
		}
	}
}

func TestCheckRefusesWhatAReaderWould(t *testing.T) {
	for name, f := range map[string]causal.Fields{
		"value":    {Record: causal.Record{Value: causal.Value{Data: make([]byte, MaxMessage)}}},
		"deps":     {Deps: make([]causal.Dep, causal.MaxDeps+1)},
		"versions": {Versions: make([]causal.Version, MaxList+1)},
		"slot":     {Deps: []causal.Dep{{Slot: topology.Slots}}},
		"rings":    {Vectors: []causal.VectorEntry{{RV: make([]causal.HLC, topology.MaxRings+1)}}},
	} {
		if m := withFields(f); Check(&m) == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		m := message().Draw(t, "message")
		if err := Check(&m); err != nil {
			t.Fatal(err)
		}
		if size, guess := len(Append(nil, &m)), EstimateSize(&m); size > 3*guess+200 {
			t.Fatalf("%d bytes were estimated as %d", size, guess)
		}
		if size, bound := len(Append(nil, &m)), m.MaxEncodedSize(); size > bound {
			t.Fatalf("%d bytes are more than the bound of %d", size, bound)
		}
	})
}

// greatest returns a message with the greatest value in every field that has one, and no list.
func greatest() causal.Message {
	node := topology.Node{Part: math.MaxUint8, DC: math.MaxUint16, Index: math.MaxUint64, Member: math.MaxUint8}
	m := withFields(causal.Fields{Status: math.MaxUint8, Err: math.MaxUint8, Ring: math.MaxUint8, Clean: true,
		Hit: true, VersionOnly: true, Older: true, Map: math.MaxUint32,
		ID: math.MaxUint64, Session: math.MaxUint64, Seq: math.MaxUint64, Epoch: math.MaxUint64, Hash: math.MaxUint64,
		HLC: math.MaxUint64, Cut: math.MaxUint64,
		Duration: math.MinInt64, Record: greatestRecord()})
	m.Kind, m.From, m.To = math.MaxUint8, node, node
	return m
}

func greatestRecord() causal.Record {
	v := causal.Version{HLC: math.MaxUint64, Origin: math.MaxUint32}
	return causal.Record{Version: v, Value: causal.Value{Data: []byte("v"), ExpireAtMs: math.MinInt64, Tombstone: true,
		Type: 255}}
}

func TestTheBoundOfTheSizeOfAMessageHoldsForTheGreatestFields(t *testing.T) {
	const n = 1000
	rec := greatestRecord()
	lists := map[string]causal.Fields{
		"none": {}, "deps": {Deps: slices.Repeat([]causal.Dep{{Version: rec.Version, Slot: topology.Slots - 1}}, n)},
		"versions":   {Versions: slices.Repeat([]causal.Version{rec.Version}, n)},
		"exclusions": {Exclusions: slices.Repeat([]uint32{math.MaxUint32}, n)},
		"vectors": {
			Vectors: slices.Repeat([]causal.VectorEntry{{Origin: math.MaxUint32, Last: math.MaxUint32,
				SV: math.MaxUint64, Settled: math.MaxUint64,
				RV: slices.Repeat([]causal.HLC{math.MaxUint64}, topology.MaxRings)}}, n)},
	}
	for name, list := range lists {
		m := greatest()
		f := m.Fields()
		f.Deps, f.Versions, f.Exclusions, f.Vectors = list.Deps, list.Versions, list.Exclusions, list.Vectors
		size, bound := len(Append(nil, &m)), m.MaxEncodedSize()
		if size > bound || bound > size+200+16*n {
			t.Errorf("%s: %d bytes, and the bound is %d", name, size, bound)
		}
	}
}

// TestEveryMessageWithAGreatestRecordFits asserts by how much: the same numbers are in docs/operations.md, Limits.
func TestEveryMessageWithAGreatestRecordFits(t *testing.T) {
	key, rec := strings.Repeat("k", causal.MaxKeyBytes), greatestRecord()
	rec.Value.Data, rec.Value.Tombstone = make([]byte, causal.MaxValueBytes), false
	deps := slices.Repeat([]causal.Dep{{Version: rec.Version, Slot: topology.Slots - 1}}, causal.MaxDeps)
	const room = 3 << 20
	node, most := greatest().From, uint64(math.MaxUint64)
	page := []causal.Moved{{Key: key, Record: rec},
		{Record: causal.Record{Value: causal.Value{Data: make([]byte, 1<<20-256)}}}}
	var list causal.DepList
	for _, d := range deps {
		list.AddWrite(d)
	}
	put, reply := greatest(), greatest()
	put.Fields().Key, put.Fields().Record, put.Fields().Deps = key, rec, deps
	reply.Fields().Key, reply.Fields().Record = key, rec
	for name, m := range map[string]causal.Message{
		"a put, a put-after": put,
		"a reply, a fill":    reply,
		"what an adopter collects": causal.AdoptHeld{ID: most, Key: key, Record: rec, Deps: list,
			Previous: math.MaxUint64, Map: math.MaxUint32}.Message(node, node),
		"what an adopter puts": causal.AdoptPut{Key: key, Record: rec, Deps: deps}.Message(node, node),
		"a page of up to 1 MiB more, of a resharding": causal.Pulled{TakerLife: most, GiverLife: most, List: most,
			First: most, Moved: page}.Message(node, node),
		"a page of a lost log": causal.Salvaged{ID: most, Generation: most, After: key, Next: key,
			Records: page[:1]}.Message(node, node),
	} {
		for protocol := uint32(MinProtocol); protocol <= Protocol; protocol++ {
			if size := len(appendFor(protocol, &m)); size > MaxMessage-room || Check(&m) != nil {
				t.Errorf("%s: with protocol %d it takes %d bytes, and should leave %d of %d: %v", name, protocol, size,
					room, MaxMessage, Check(&m))
			}
		}
	}
}

// Versions without bounds took a put that they estimated at up to 20 MiB, 256 bytes for what is not estimated included.
func TestWhatEarlierVersionsAcceptedStillFits(t *testing.T) {
	const size = 20<<20 - 256 - 40
	m := greatest()
	f := m.Fields()
	f.Record.Value.Data = make([]byte, size)
	f.Deps = slices.Repeat([]causal.Dep{{Version: f.Record.Version, Slot: topology.Slots - 1}}, causal.MaxDeps)
	if err := Check(&m); err != nil {
		t.Error(err)
	}
}

func FuzzDecodeFrame(f *testing.F) {
	f.Add(appendBatch(nil, []causal.Message{full(), withFields(causal.Fields{ID: 1})}))
	for k := causal.KindNone; k < causal.NumKinds; k++ {
		if b, _ := filledBody(k, 0); b != nil {
			m := causal.Message{Kind: k}
			m.SetBody(b)
			for protocol := uint32(MinProtocol); protocol <= Protocol; protocol++ {
				frame := Batch{Protocol: protocol}
				frame.Add(&m)
				f.Add(frame.Buf)
			}
		}
	}
	announced := Announcement{causal.Leadership{Epoch: 1, Life: 2}, 3}
	f.Add(AppendHello(nil, &Hello{Protocol: 1, Process: "a", Nodes: []topology.Node{{Part: 1, Member: 1}},
		Announcement: announced}))
	f.Add(AppendAnnouncement(AppendProbe(nil, ProbeRequest), announced))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := DecodeHello(b); err == nil {
			h2, err := DecodeHello(AppendHello(nil, h))
			if diff := cmp.Diff(h, h2); err != nil || diff != "" {
				t.Fatalf("a hello changed on its second way: %v\n%s", err, diff)
			}
		}
		msgs, control, err := DecodeFrame(b, nil)
		if err != nil {
			return
		}
		again := appendBatch(nil, msgs)
		msgs2, control2, err := DecodeFrame(
			AppendAnnouncement(AppendRoots(AppendProbe(slices.Clone(again), control.Probe), control.Roots),
				control.Announcement), nil)
		control.Memory = control2.Memory // of another encoding
		if diff := cmp.Diff(control, control2); err != nil || diff != "" {
			t.Fatalf("what was read cannot be written and read again: %v\n%s", err, diff)
		}
		if !bytes.Equal(again, appendBatch(nil, msgs2)) {
			t.Fatal("a frame changed on its second way")
		}
	})
}

// appendBatch appends a frame that holds msgs to dst and returns the extended buffer.
func appendBatch(dst []byte, msgs []causal.Message) []byte {
	b := Batch{Buf: dst}
	for i := range msgs {
		b.Add(&msgs[i])
	}
	return b.Buf
}
