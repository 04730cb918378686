package causal

import (
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/topology"
)

// contents returns what the parts read of messages of each kind.
var contents = map[Kind]func(*Message) any{
	KindGet: readAs((*Message).Get), KindGetReply: readAs((*Message).GetReply), KindFill: readAs((*Message).Fill),
	KindFillReply: onStream((*Message).FillReply),
	KindPut:       readAs((*Message).Put), KindPutReply: readAs((*Message).PutReply),
	KindComplete: readAs((*Message).Complete), KindPutAfter: readAs((*Message).PutAfter),
	KindPutAck: readAs((*Message).PutAck), KindStable: readAs((*Message).StableMarks),
	KindLaneHello: readAs((*Message).LaneHello), KindLaneSync: readAs((*Message).LaneSync),
	KindLogGet: readAs((*Message).LogGet), KindLogReply: readAs((*Message).LogReply),
	KindDepCheck: readAs((*Message).DepCheck), KindDepStatus: readAs((*Message).DepStatus),
	KindFrontier: readAs((*Message).Frontier), KindStreamOpen: readAs((*Message).StreamOpen),
	KindStreamReset: readAs((*Message).StreamReset), KindLease: readAs((*Message).LeaseRenewal),
	KindLeaseGrant: onStream((*Message).LeaseGrant), KindInvalidate: onStream((*Message).Invalidate),
	KindInvalidateAck: readAs((*Message).InvalidateAck), KindVectors: readAs((*Message).Vectors),
	KindSubscribe: func(*Message) any {
		return nil
	}, KindPing: readAs((*Message).Ping), KindPong: readAs((*Message).Pong),
	KindLatencies: readAs((*Message).Latencies),
	KindTerm:      readAs((*Message).Term), KindTermReply: readAs((*Message).TermReply),
	KindPastQuery: readAs((*Message).PastQuery), KindPastReply: readAs((*Message).PastReply),
	KindCut: readAs((*Message).CutNotice), KindCount: readAs((*Message).Count),
	KindCountReply: readAs((*Message).CountReply), KindPull: readAs((*Message).Pull),
	KindPulled:   readAs((*Message).Pulled),
	KindDepProbe: readAs((*Message).DepProbe), KindDepMissing: readAs((*Message).DepMissing),
	KindScan: readAs((*Message).Scan), KindScanReply: readAs((*Message).ScanReply),
	KindSignedVectors: readAs((*Message).SignedVectors), KindGroup: readAs((*Message).GroupMessage),
	KindCopy: readAs((*Message).CopyMessage), KindSalvage: readAs((*Message).Salvage),
	KindSalvaged: readAs((*Message).Salvaged), KindTermQuery: readAs((*Message).TermQuery),
	KindTermAnswer: readAs((*Message).TermAnswer), KindAdoptQuery: readAs((*Message).AdoptQuery),
	KindAdoptHeld: readAs((*Message).AdoptHeld), KindAdoptPut: readAs((*Message).AdoptPut),
	KindAdoptStep: readAs((*Message).AdoptStep), KindAdoptState: readAs((*Message).AdoptStatus),
	KindHomeRead: readAs((*Message).HomeRead), KindHomeReply: readAs((*Message).HomeReply),
	KindHomeCommit: readAs((*Message).HomeCommit), KindHomeChange: readAs((*Message).HomeChange),
	KindHomeVote: readAs((*Message).HomeVote), KindHomes: readAs((*Message).Homes),
	KindHomeVerdict: readAs((*Message).HomeVerdict),
	KindFormatQuery: func(*Message) any {
		return nil
	}, KindFormatReply: readAs((*Message).FormatReply),
	KindHomeWait: readAs((*Message).HomeWait), KindHomeWake: readAs((*Message).HomeWake),
}

func readAs[C any](read func(*Message) C) func(*Message) any {
	return func(m *Message) any { return read(m) }
}

// onStream adds the place on the stream, which is no part of the content.
func onStream[C any](read func(*Message) C) func(*Message) any {
	return func(m *Message) any {
		return struct {
			Content C
			At      StreamPosition
		}{read(m), m.StreamPosition()}
	}
}

// validityTopology has three data centers in two rings.
func validityTopology(t testing.TB) *topology.Topology {
	t.Helper()
	dc := func(name string) topology.DataCenter {
		return topology.DataCenter{Name: name, Coordinators: 2, Shards: 2, Caches: 1}
	}
	top, err := topology.New(1, []topology.DataCenter{dc("a"), dc("b"), dc("c")},
		[]topology.Ring{{Name: "one", DCs: []topology.DC{0, 1}}, {Name: "two", DCs: []topology.DC{2}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// try is a value of a field, and what Validate is to say of it.
type try struct {
	set  func(field reflect.Value)
	want Validity
}

func number(want Validity, ns ...uint64) (tries []try) {
	for _, n := range ns {
		tries = append(tries, try{func(field reflect.Value) {
			if field.CanInt() {
				field.SetInt(int64(n))
			} else {
				field.SetUint(n)
			}
		}, want})
	}
	return tries
}

// version sets a version, or that of a record.
func version(want Validity, vs ...Version) (tries []try) {
	for _, v := range vs {
		tries = append(tries, try{func(field reflect.Value) {
			if field.Type() == reflect.TypeFor[Record]() {
				field = field.FieldByName("Version")
			}
			field.Set(reflect.ValueOf(v))
		}, want})
	}
	return tries
}

func value[T any](want Validity, vs ...T) (tries []try) {
	for _, v := range vs {
		tries = append(tries, try{func(field reflect.Value) { field.Set(reflect.ValueOf(v)) }, want})
	}
	return tries
}

func all(tries ...[]try) (joined []try) {
	for _, some := range tries {
		joined = append(joined, some...)
	}
	return joined
}

// bounds has for each rule values at its bounds and beyond, the first of which is permitted. The topology has origins 1
// to 48, data centers 0 to 2 and rings 0 and 1, and a message 3 dependencies.
func bounds() map[rule][]try {
	const top, end = 48, math.MaxUint64
	const none = math.MaxUint32 // the origin of what does not exist
	w := func(h HLC, o topology.Origin) Version { return Version{HLC: h, Origin: o} }
	dep := func(h HLC, o topology.Origin, s topology.Slot) Dep { return Dep{w(h, o), s} }
	fine := []Dep{dep(1, 1, 0), dep(NoLimit, top, topology.Slots-1), dep(5, 2, 7)}
	oneBad := [][]Dep{{dep(1, 0, 0)}, {dep(1, top+1, 0)}, {dep(1, none, 0)}, {dep(0, 1, 0)},
		{dep(1, 1, topology.Slots)}, {dep(1, 1, math.MaxUint16)}}
	var oneOfThree [][]Dep
	for _, bad := range oneBad {
		oneOfThree = append(oneOfThree, append(bad, fine[:2]...))
	}
	badWrites := []Version{w(1, 0), w(1, top+1), w(0, 1)}
	badLists := [][]Version{{w(1, 1), w(1, 0)}, {w(1, top+1)}, {w(0, 1)}, {w(1, none)}}
	e := func(first, last topology.Origin, rv ...HLC) VectorEntry {
		return VectorEntry{Origin: first, Last: last, SV: 1, RV: rv}
	}
	return map[rule][]try{
		counter: all(number(Valid, 0, 1, MaxCounter), number(Invalid, MaxCounter+1, end)),
		aSlot: all(number(Valid, 0, topology.Slots-1),
			number(Invalid, topology.Slots, topology.Slots+1, 1<<16, end)),
		anOrigin: all(number(Valid, 1, top), number(Invalid, 0, top+1, 1<<32+1, end)),
		aDC:      all(number(Valid, 0, 2), number(Invalid, 3, 1<<16, end)),
		aRing:    all(number(Valid, 0, 1), number(Invalid, 2, topology.MaxRings, uint64(topology.NoRing))),
		aRingOrNone: all(number(Valid, 0, 1, uint64(topology.NoRing)),
			number(Invalid, 2, topology.MaxRings, uint64(topology.NoRing)-1)),
		shardIndex:     all(number(Valid, 0, math.MaxUint16), number(Invalid, math.MaxUint16+1, end)),
		coordinatorSet: all(number(Valid, 0, 1<<16-1), number(Invalid, 1<<16, end)),
		dcSet:          all(number(Valid, 0, 7), number(Invalid, 8, end)),
		awayTerm:       all(number(Valid, 0, 2, MaxCounter), number(Invalid, 1, MaxCounter-1, MaxCounter+2, end)),
		leaseLength:    all(number(Valid, 0, uint64(MaxLease)), number(Invalid, uint64(MaxLease)+1, 1<<63, end)),
		depCount:       all(number(Valid, 0, 3), number(Invalid, 4, end)),
		laneCount:      all(number(Valid, 0, 1), number(Invalid, 2, 3, 4, end)), // of 3, 2 are met
		metLaneCount:   all(number(Valid, 0, 2), number(Invalid, 3, end)),
		knownStatus:    all(number(Valid, 0, 1), number(Later, 2, 255)),
		knownErr:       all(number(Valid, 0, uint64(ErrFormat)), number(Later, uint64(ErrFormat)+1, 255)),
		knownAdoption:  all(number(Valid, 0, uint64(AdoptionComplete)), number(Later, uint64(AdoptionComplete)+1, 255)),

		written: all(version(Valid, w(1, 1), w(NoLimit, top)), version(Invalid, badWrites...),
			version(Invalid, w(0, 0), w(1, none))),
		writtenOrNone: all(version(Valid, w(1, 1), w(NoLimit, top), w(0, 0)), version(Invalid, badWrites...),
			version(Invalid, w(1, none))),
		readable: all(version(Valid, w(1, 1), w(NoLimit, top), w(0, 0), w(1, none)), version(Invalid, badWrites...),
			version(Invalid, w(0, none))),

		dependencies: all(value(Valid, fine), value(Invalid, oneOfThree...)),
		dependency:   all(value(Valid, fine...), value(Invalid, slices.Concat(oneBad...)...)),
		versions:     all(value(Valid, []Version{w(1, 1), w(NoLimit, top)}, nil), value(Invalid, badLists...)),
		oneVersion: all(value(Valid, []Version{w(1, 1)}, []Version{w(1, top)}), value(Invalid, badLists[1:]...),
			value(Invalid, []Version{w(1, 1), w(2, 1)}, nil)),
		vectors: all(value(Valid, []VectorEntry{e(1, 0), e(2, 47, 1, 2), e(top, top)}, nil),
			value(Invalid, []VectorEntry{e(0, 0)}, []VectorEntry{e(top+1, 0)}, []VectorEntry{e(none, 0)},
				[]VectorEntry{e(1, top+1)}, []VectorEntry{e(5, 4)},
				[]VectorEntry{e(1, 2), e(2, 3)}, []VectorEntry{e(2, 2), e(1, 1)}, []VectorEntry{e(1, 1, 1)},
				[]VectorEntry{e(1, 1, 1, 2, 3)})),
		lanes: all(value(Valid, []VectorEntry{e(1, 0, 1), e(top, 0, NoLimit)}, nil),
			value(Invalid, []VectorEntry{e(0, 0, 1)}, []VectorEntry{e(top+1, 0, 1)}, []VectorEntry{e(1, 2, 1)},
				[]VectorEntry{e(1, 0)}, []VectorEntry{e(1, 0, 1, 2)},
				[]VectorEntry{e(1, 0, 1), e(1, 0, 1)})),
		finite: all(value(Valid, 1, -1, 0, math.MaxFloat64), value(Invalid, math.NaN(), math.Inf(1), math.Inf(-1))),
		roundTrips: all(value(Valid, make([]RoundTrip, 3), nil, make([]RoundTrip, 1)),
			value(Invalid, make([]RoundTrip, 4))),
		keyRanges: all(value(Valid, []KeyRange{{"a", "b"}, {"c", ""}}, nil, AllKeys()),
			value(Invalid, []KeyRange{{"a", "b"}, {"b", "c"}}, []KeyRange{{"a", ""}, {"b", "c"}},
				[]KeyRange{{"b", "a"}}, []KeyRange{{"c", "d"}, {"a", "b"}}, manyRanges(MaxKeyRanges+1)),
			value(Valid, manyRanges(MaxKeyRanges))),
		records: all(value(Valid, []Moved{{Key: "k", Record: Record{Version: w(1, top)}}, {},
			{Record: Record{Version: w(1, none)}}}, nil),
			value(Invalid, []Moved{{}, {Record: Record{Version: w(1, top+1)}}},
				[]Moved{{Record: Record{Version: w(1, 0)}}})),
	}
}

// manyRanges returns n ranges of one key each.
func manyRanges(n int) (rs []KeyRange) {
	for i := range n {
		rs = append(rs, OneKey(fmt.Sprintf("%04d", i)))
	}
	return rs
}

// validMessage returns a message of a kind in which every field that it has is set.
func validMessage(k Kind) Message {
	m := Message{Kind: k}
	f := &m.fields
	f.Deps = bounds()[dependencies][0].value()
	of := reflect.ValueOf(rules[k])
	for i := range of.NumField() {
		name, r := of.Type().Field(i).Name, of.Field(i).Interface().(rule)
		if r > anything {
			bounds()[r][0].set(reflect.ValueOf(f).Elem().FieldByName(name))
		}
	}
	if k == KindPutAfter {
		f.Hash = 2
	}
	return m
}

// value returns the dependencies that a try sets.
func (t try) value() []Dep {
	var f Fields
	t.set(reflect.ValueOf(&f).Elem().FieldByName("Deps"))
	return f.Deps
}

func TestEveryRuleHoldsAtItsBoundsAndBeyond(t *testing.T) {
	top, all := validityTopology(t), bounds()
	for r := anything + 1; r < numRules; r++ {
		if len(all[r]) < 3 {
			t.Errorf("rule %d is not tried", r)
		}
	}
	tried := 0
	for k := KindNone + 1; k < NumKinds; k++ {
		if hasBody(k) {
			continue
		}
		base := validMessage(k)
		if v, field := Validate(&base, top); v != Valid {
			t.Fatalf("%s: a valid message is refused for its %s: %+v", k, field, base.fields)
		}
		of := reflect.ValueOf(rules[k])
		for i := range of.NumField() {
			name, r := of.Type().Field(i).Name, of.Field(i).Interface().(rule)
			for n, try := range all[r] {
				m := base
				field := reflect.ValueOf(&m.fields).Elem().FieldByName(name)
				try.set(field)
				v, at := Validate(&m, top)
				if v != try.want || v != Valid && at != name {
					t.Errorf("%s: value %d of %s, %+v, is judged %d for %s; want %d", k, n, name, field, v,
						at, try.want)
				}
				tried++
			}
		}
		m := base
		if m.fields.Exclusions = make(Exclusions, 3); !isValid(&m, top) {
			t.Errorf("%s: exclusions of all data centers are refused", k)
		}
		if m.fields.Exclusions = make(Exclusions, 4); isValid(&m, top) {
			t.Errorf("%s: exclusions of more data centers than there are pass", k)
		}
	}
	if tried < 200 {
		t.Errorf("only %d values were tried", tried)
	}
}

// bodySetter sets the fields of a body, in the order in which they are visited: those of parts too.
type bodySetter struct {
	only   int // the field to set; 0: all
	try    int
	bounds map[rule][]try
	seen   int
	// tries is how many there are for the field, want what the try is to be judged, and field its name.
	tries int
	want  Validity
	field string
}

// visit is a VisitorFunc. It sets a field as a try of its rule does.
func (b *bodySetter) visit(f BodyField, p any) {
	b.seen++
	if (b.only == 0 || b.only == b.seen) && f.rule > anything {
		tries := b.bounds[f.rule]
		b.tries, b.field, b.want = len(tries), f.Name, tries[b.try].want
		switch p := p.(type) {
		case BodyParts:
			tries[b.try].set(reflect.ValueOf(p.List()).Elem())
		case *uint64:
			was := *p
			if tries[b.try].set(reflect.ValueOf(p).Elem()); b.want != Valid && *p > f.Max {
				*p, b.want = was, Valid // a decoder refuses it
			}
		default:
			tries[b.try].set(reflect.ValueOf(p).Elem())
		}
	}
	parts, ok := p.(BodyParts)
	if !ok {
		return
	}
	if parts.Len() == 0 && b.only == 0 {
		parts.Add()
	}
	for i := range parts.Len() {
		parts.At(i).Visit(VisitorFunc(b.visit))
	}
}

func TestEveryRuleOfABodyHoldsAtItsBoundsAndBeyond(t *testing.T) {
	top, all, tried := validityTopology(t), bounds(), 0
	for k := KindNone + 1; k < NumKinds; k++ {
		if !hasBody(k) {
			continue
		}
		none := Message{Kind: k}
		if isValid(&none, top) {
			t.Errorf("%s: a message without its body passes", k)
		}
		fields := 1
		for n := 0; n <= fields; n++ {
			for try := 0; ; try++ {
				b, valid := NewBody(k), bodySetter{bounds: all}
				b.Visit(VisitorFunc(valid.visit))
				m := bodyMessage(k, topology.Node{}, topology.Node{}, b)
				if v, field := Validate(&m, top); v != Valid {
					t.Fatalf("%s: a valid message is refused for its %s: %+v", k, field, b)
				}
				if fields = valid.seen; n == 0 {
					break
				}
				s := bodySetter{only: n, try: try, bounds: all}
				b.Visit(VisitorFunc(s.visit))
				if s.tries == 0 {
					break // it has no rule
				}
				if v, at := Validate(&m, top); v != s.want || v != Valid && at != s.field && at != "lanes" {
					t.Errorf("%s: value %d of %s is judged %d for %s; want %d: %+v", k, try, s.field, v, at, s.want, b)
				}
				if tried++; try+1 == s.tries {
					break
				}
			}
		}
	}
	if tried < 300 {
		t.Errorf("only %d values were tried", tried)
	}
}

func isValid(m *Message, t *topology.Topology) bool {
	v, _ := Validate(m, t)
	return v == Valid
}

func TestAKindThatIsNotKnownIsOfALaterVersion(t *testing.T) {
	m := Message{Kind: NumKinds}
	if v, _ := Validate(&m, validityTopology(t)); v != Later {
		t.Errorf("it is judged %d", v)
	}
}

// A field that a content has and no rule covers is found here, and so is a rule for a field that nobody reads.
func TestEveryFieldThatIsReadHasARule(t *testing.T) {
	for i := range reflect.TypeFor[Fields]().NumField() {
		name := reflect.TypeFor[Fields]().Field(i).Name
		if _, ok := reflect.TypeFor[kindRules]().FieldByName(name); !ok && name != "Exclusions" {
			t.Errorf("there are no rules for the field %s", name)
		}
	}
	equal := func(a, b any) bool { return cmp.Equal(a, b, cmp.AllowUnexported(DepList{}, Frontier{})) }
	for k := KindNone + 1; k < NumKinds; k++ {
		read := contents[k]
		if read == nil {
			t.Errorf("it is not known how %s is read", k)
			continue
		}
		if hasBody(k) {
			continue
		}
		of := reflect.ValueOf(rules[k])
		for i := range of.NumField() {
			name, r := of.Type().Field(i).Name, of.Field(i).Interface().(rule)
			base := Message{Kind: k}
			n := uint64(0)
			fill(reflect.ValueOf(&base.fields).Elem(), &n)
			base.fields.Deps = []Dep{{Slot: 1}, {Slot: 2}, {Slot: 3}, {Slot: 4}, {Slot: 5}}
			base.fields.Hash, base.fields.Seq, base.fields.ID, base.fields.Cut = 2, 2, 2, 2
			other := base
			reflect.ValueOf(&other.fields).Elem().FieldByName(name).SetZero()
			if isRead := !equal(read(&base), read(&other)); isRead != (r != unread) {
				t.Errorf("%s: that it reads %s is %v, and its rule is %d", k, name, isRead, r)
			}
		}
	}
}

func TestValidationAllocatesNothing(t *testing.T) {
	top := validityTopology(t)
	for _, k := range []Kind{KindPut, KindPutAfter, KindGet, KindGetReply, KindVectors} {
		m := validMessage(k)
		if n := testing.AllocsPerRun(100, func() { Validate(&m, top) }); n != 0 {
			t.Errorf("%s: %v allocations", k, n)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	top := validityTopology(b)
	for _, k := range []Kind{KindGet, KindGetReply, KindPut, KindPutAfter} {
		m := validMessage(k)
		b.Run(k.String(), func(b *testing.B) {
			for b.Loop() {
				Validate(&m, top)
			}
		})
	}
}

// What the shared fields mean is written in wire.proto, kind by kind.
func TestTheSchemaFileSaysWhichFieldsEachFrequentKindHas(t *testing.T) {
	text, err := os.ReadFile("../transport/wire/wire.proto")
	if err != nil {
		t.Fatal(err)
	}
	said, kind := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		if m := regexp.MustCompile(`^  //   ([a-z-]+): (.*)`).FindStringSubmatch(line); m != nil {
			kind = m[1]
			said[kind] = m[2]
		} else if more, ok := strings.CutPrefix(line, "  //     "); ok {
			said[kind] += " " + strings.TrimSpace(more)
		}
	}
	capital := regexp.MustCompile(`([a-z])([A-Z])`)
	for k := KindNone + 1; k < NumKinds; k++ {
		var has []string
		for i, of := 0, reflect.ValueOf(rules[k]); i < of.NumField(); i++ {
			if of.Field(i).Interface().(rule) != unread {
				has = append(has, strings.ToLower(capital.ReplaceAllString(of.Type().Field(i).Name, "${1}_$2")))
			}
		}
		names := regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(said[k.String()], "")
		listed := regexp.MustCompile(`\w+`).FindAllString(strings.ReplaceAll(names, " and ", ","), -1)
		slices.Sort(has)
		slices.Sort(listed)
		if !slices.Equal(has, listed) {
			t.Errorf("wire.proto says that %s has the fields %v; it has %v", k, listed, has)
		}
	}
}
