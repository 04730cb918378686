package causal

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/topology"
)

// fill sets every exported field to a value of its own.
func fill(v reflect.Value, n *uint64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(string(rune('a' + *n%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Int64:
		v.SetInt(int64(*n))
	default:
		v.SetUint(*n % 200)
	}
}

// content is the type of the content of one kind of message.
type content[C any] interface {
	Message(from, to topology.Node) Message
}

// checkContent asserts that a content survives being a message, that its kind is right, and that its fields do not
// share one.
func checkContent[C content[C]](t *testing.T, kind Kind, read func(*Message) C) {
	t.Helper()
	from, to := topology.Node{Part: topology.Cache, Index: 1}, topology.Node{DC: 2}
	var c C
	n := uint64(0)
	fill(reflect.ValueOf(&c).Elem(), &n)
	m := c.Message(from, to)
	if m.Kind != kind || m.From != from || m.To != to {
		t.Errorf("%T: kind %s from %s to %s", c, m.Kind, m.From, m.To)
	}
	if diff := cmp.Diff(c, read(&m), cmp.AllowUnexported(DepList{}, Frontier{})); diff != "" {
		t.Errorf("%T (-written +read):\n%s", c, diff)
	}
	checkConverted(t, c, m, read)
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() { // every field on its own
		if !v.Type().Field(i).IsExported() {
			continue
		}
		var one C
		reflect.ValueOf(&one).Elem().Field(i).Set(v.Field(i))
		m := one.Message(from, to)
		if diff := cmp.Diff(one, read(&m), cmp.AllowUnexported(DepList{}, Frontier{})); diff != "" {
			t.Errorf("%T with only %s (-written +read):\n%s", c, v.Type().Field(i).Name, diff)
		}
		checkConverted(t, one, m, read)
	}
}

// checkConverted asserts that a content survives the conversion for link protocol 1, and with that, that Visit has all
// of its fields.
func checkConverted[C any](t *testing.T, c C, m Message, read func(*Message) C) {
	t.Helper()
	if bodies[m.Kind].since == 1 { // it was never without
		return
	}
	shared := m.Shared()
	converted := Message{Kind: m.Kind, From: m.From, To: m.To, fields: shared.Fields}
	converted.MakeBody(shared.Former)
	if (converted.body != nil) != hasBody(m.Kind) {
		t.Errorf("%T: its body is %v", c, converted.body)
	}
	c = read(ofShared(&m))
	if diff := cmp.Diff(c, read(&converted), cmp.AllowUnexported(DepList{}, Frontier{})); diff != "" {
		t.Errorf("%T (-written +converted):\n%s", c, diff)
	}
}

// ofShared returns m without the fields of its body that were added since the kind has one.
func ofShared(m *Message) *Message {
	if m.body == nil {
		return m
	}
	c := *m
	c.body = NewBody(m.Kind)
	reflect.ValueOf(c.body).Elem().Set(reflect.ValueOf(m.body).Elem())
	c.body.Visit(VisitorFunc(func(f BodyField, p any) {
		if f.IsShared() {
			return
		}
		if parts, ok := p.(BodyParts); ok {
			p = parts.List()
		}
		reflect.ValueOf(p).Elem().SetZero()
	}))
	return &c
}

func TestEveryContentIsReadAsItWasWritten(t *testing.T) {
	checkContent(t, KindSalvage, (*Message).Salvage)
	checkContent(t, KindSalvaged, (*Message).Salvaged)
	checkContent(t, KindTermQuery, (*Message).TermQuery)
	checkContent(t, KindTermAnswer, (*Message).TermAnswer)
	checkContent(t, KindGet, (*Message).Get)
	checkContent(t, KindGetReply, (*Message).GetReply)
	checkContent(t, KindFill, (*Message).Fill)
	checkContent(t, KindFillReply, (*Message).FillReply)
	checkContent(t, KindPut, (*Message).Put)
	checkContent(t, KindPutReply, (*Message).PutReply)
	checkContent(t, KindComplete, (*Message).Complete)
	checkContent(t, KindPutAfter, (*Message).PutAfter)
	checkContent(t, KindPutAck, (*Message).PutAck)
	checkContent(t, KindStable, (*Message).StableMarks)
	checkContent(t, KindLaneHello, (*Message).LaneHello)
	checkContent(t, KindLaneSync, (*Message).LaneSync)
	checkContent(t, KindLogGet, (*Message).LogGet)
	checkContent(t, KindLogReply, (*Message).LogReply)
	checkContent(t, KindDepCheck, (*Message).DepCheck)
	checkContent(t, KindDepStatus, (*Message).DepStatus)
	checkContent(t, KindFrontier, (*Message).Frontier)
	checkContent(t, KindStreamOpen, (*Message).StreamOpen)
	checkContent(t, KindStreamReset, (*Message).StreamReset)
	checkContent(t, KindLease, (*Message).LeaseRenewal)
	checkContent(t, KindLeaseGrant, (*Message).LeaseGrant)
	checkContent(t, KindInvalidate, (*Message).Invalidate)
	checkContent(t, KindInvalidateAck, (*Message).InvalidateAck)
	checkContent(t, KindVectors, (*Message).Vectors)
	checkContent(t, KindSignedVectors, (*Message).SignedVectors)
	checkContent(t, KindPing, (*Message).Ping)
	checkContent(t, KindPong, (*Message).Pong)
	checkContent(t, KindLatencies, (*Message).Latencies)
	checkContent(t, KindTerm, (*Message).Term)
	checkContent(t, KindTermReply, (*Message).TermReply)
	checkContent(t, KindPastQuery, (*Message).PastQuery)
	checkContent(t, KindPastReply, (*Message).PastReply)
	checkContent(t, KindCut, (*Message).CutNotice)
	checkContent(t, KindCount, (*Message).Count)
	checkContent(t, KindCountReply, (*Message).CountReply)
	checkContent(t, KindPull, (*Message).Pull)
	checkContent(t, KindPulled, (*Message).Pulled)
	checkContent(t, KindDepProbe, (*Message).DepProbe)
	checkContent(t, KindDepMissing, (*Message).DepMissing)
	checkContent(t, KindScan, (*Message).Scan)
	checkContent(t, KindScanReply, (*Message).ScanReply)
	checkContent(t, KindGroup, (*Message).GroupMessage)
	checkContent(t, KindCopy, (*Message).CopyMessage)
	checkContent(t, KindAdoptQuery, (*Message).AdoptQuery)
	checkContent(t, KindAdoptHeld, (*Message).AdoptHeld)
	checkContent(t, KindAdoptPut, (*Message).AdoptPut)
	checkContent(t, KindAdoptStep, (*Message).AdoptStep)
	checkContent(t, KindAdoptState, (*Message).AdoptStatus)
	checkContent(t, KindHomeRead, (*Message).HomeRead)
	checkContent(t, KindHomeReply, (*Message).HomeReply)
	checkContent(t, KindHomeCommit, (*Message).HomeCommit)
	checkContent(t, KindHomeChange, (*Message).HomeChange)
	checkContent(t, KindHomeVote, (*Message).HomeVote)
	checkContent(t, KindHomes, (*Message).Homes)
	if m := (Subscribe{}).Message(topology.Node{}, topology.Node{}); m.Kind != KindSubscribe {
		t.Errorf("a Subscribe is a %s", m.Kind)
	}
}

func TestDependenciesKeepTheirSort(t *testing.T) {
	write, lane := Dep{Slot: 1}, Dep{Slot: 2}
	var l DepList
	l.AddWrite(write)
	l.AddLane(lane)
	m := PutAfter{Deps: l}.Message(topology.Node{}, topology.Node{})
	if got := m.PutAfter().Deps; !slices.Equal(got.Writes(), []Dep{write}) || !slices.Equal(got.Lanes(), []Dep{lane}) {
		t.Errorf("writes %v, lanes %v", got.Writes(), got.Lanes())
	}
	m = PutAfter{Deps: l, Met: l}.Message(topology.Node{}, topology.Node{})
	for _, got := range []DepList{m.PutAfter().Deps, m.PutAfter().Met} {
		if !slices.Equal(got.Writes(), []Dep{write}) || !slices.Equal(got.Lanes(), []Dep{lane}) {
			t.Errorf("writes %v, lanes %v", got.Writes(), got.Lanes())
		}
	}
	if both := l.With(l); !slices.Equal(both.Writes(), []Dep{write, write}) ||
		!slices.Equal(both.Lanes(), []Dep{lane, lane}) {
		t.Errorf("of both: writes %v, lanes %v", both.Writes(), both.Lanes())
	}
}

func TestAFrontierNamesEachLane(t *testing.T) {
	want := []LaneProgress{{Origin: 1, Received: 9, Clean: 4}, {Origin: 17, Received: 3, Clean: 3}}
	var f Frontier
	for _, p := range want {
		f.Add(p)
	}
	m := f.Message(topology.Node{}, topology.Node{})
	read := m.Frontier()
	if got := slices.Collect(read.Lanes()); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAStreamPositionDoesNotDisturbTheContent(t *testing.T) {
	at := StreamPosition{Epoch: 5, Seq: 7}
	for _, m := range []Message{
		FillReply{ID: 3, Key: "k", Next: 9}.Message(topology.Node{}, topology.Node{}),
		LeaseGrant{ID: 3, Duration: 9}.Message(topology.Node{}, topology.Node{}),
		Invalidate{KeyHash: 3, Next: 9}.Message(topology.Node{}, topology.Node{}),
	} {
		placed := m
		placed.SetStreamPosition(at)
		if placed.StreamPosition() != at || !cmp.Equal(placed.FillReply(), m.FillReply()) ||
			placed.LeaseGrant() != m.LeaseGrant() ||
			placed.Invalidate() != m.Invalidate() {
			t.Errorf("%s: %+v became %+v", m.Kind, m, placed)
		}
	}
}

func TestADepCheckOfNothingIsHarmless(t *testing.T) {
	m := Message{Kind: KindDepCheck} // as a part that is not ours might send it
	if got := m.DepCheck(); !got.Version.IsZero() {
		t.Errorf("got %+v", got)
	}
}
