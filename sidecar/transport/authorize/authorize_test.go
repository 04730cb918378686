package authorize

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// three has data centers a and b in one ring and c in another; each has two coordinators.
func three(t testing.TB) *topology.Topology {
	t.Helper()
	var dcs []topology.DataCenter
	for _, name := range []string{"a", "b", "c"} {
		dcs = append(dcs, topology.DataCenter{Name: name, Coordinators: 2, Shards: 2, Caches: 1})
	}
	top, err := topology.New(1, dcs, []topology.Ring{{Name: "one", DCs: []topology.DC{0, 1}},
		{Name: "two", DCs: []topology.DC{2}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// honest returns a message whose content every rule for its kind permits.
func honest(k causal.Kind, from, to topology.Node, t *topology.Topology) causal.Message {
	m := causal.Message{Kind: k, From: from, To: to}
	f := m.Fields()
	f.Ring = t.RingOf(from.DC)
	if b := causal.NewBody(k); b != nil {
		m.SetBody(b)
	}
	switch k {
	case causal.KindPutReply, causal.KindPutAfter:
		f.Record.Version = causal.Version{HLC: 5, Origin: t.OriginOf(from)}
	case causal.KindLogReply:
		return causal.LogReply{Record: causal.Record{Version: causal.Version{HLC: 5,
			Origin: t.OriginOf(from)}}}.Message(from, to)
	case causal.KindLogGet:
		return causal.LogGet{Version: causal.Version{HLC: 5, Origin: t.OriginOf(to)}}.Message(from, to)
	case causal.KindComplete, causal.KindStable:
		f.Versions = []causal.Version{{HLC: 5, Origin: t.OriginOf(from)}}
	case causal.KindPutAck:
		f.Versions = []causal.Version{{HLC: 5, Origin: t.OriginOf(to)}}
	case causal.KindVectors:
		f.Vectors = []causal.VectorEntry{{Origin: t.OriginOf(from), SV: 5}}
	case causal.KindSignedVectors: // it passes on what somebody else has signed
		return causal.SignedVectors{DC: 1,
			Entries: []causal.VectorEntry{{Origin: 17, SV: 5}, {Origin: 18, Last: 32, SV: 5}}}.Message(from, to)
	case causal.KindPut:
		f.Deps = []causal.Dep{{Version: causal.Version{HLC: 5, Origin: topology.Origin(t.Origins())}}}
	case causal.KindDepCheck, causal.KindDepStatus:
		f.Versions = []causal.Version{{HLC: 5, Origin: 1}}
	case causal.KindDepProbe:
		return causal.DepProbe{Dep: causal.Dep{Version: causal.Version{HLC: 5, Origin: 1}}}.Message(from, to)
	case causal.KindDepMissing:
		return causal.DepMissing{Dep: causal.Dep{Version: causal.Version{HLC: 5, Origin: 1}}}.Message(from, to)
	case causal.KindAdoptPut:
		return causal.AdoptPut{Record: causal.Record{Version: causal.Version{HLC: 5, Origin: 1}}}.Message(from, to)
	case causal.KindAdoptQuery:
		return causal.AdoptQuery{Origin: 1}.Message(from, to)
	case causal.KindAdoptHeld:
		return causal.AdoptHeld{Origin: 1}.Message(from, to)
	}
	return m
}

// places is where the two ends of a link may be.
var places = []struct {
	name     string
	from, to topology.Node // without their parts
}{
	{"the same data center", topology.Node{Index: 1}, topology.Node{Index: 1}},
	{"the sender leads", topology.Node{}, topology.Node{Index: 1}},
	{"the receiver leads", topology.Node{Index: 1}, topology.Node{}},
	{"the same ring", topology.Node{Index: 1}, topology.Node{DC: 1, Index: 1}},
	{"another ring", topology.Node{Index: 1}, topology.Node{DC: 2, Index: 1}},
	{"both lead, in different data centers", topology.Node{}, topology.Node{DC: 2}},
	{"the sender leads another data center", topology.Node{DC: 2}, topology.Node{Index: 1}},
	{"members of one group", topology.Node{Index: 1, Member: 1}, topology.Node{Index: 1, Member: 2}},
	{"a member and its node", topology.Node{Index: 1, Member: 1}, topology.Node{Index: 1}},
	{"members of two groups, that of the leader first", topology.Node{Member: 1}, topology.Node{Index: 1, Member: 2}},
	{"members of two groups, that of the leader last", topology.Node{Index: 1, Member: 2}, topology.Node{Member: 1}},
	{"members of two groups without the leader", topology.Node{Index: 1, Member: 2},
		topology.Node{Index: 2, Member: 1}},
	{"members in two data centers", topology.Node{DC: 1, Index: 1, Member: 2}, topology.Node{Member: 1}},
}

// expected is a second statement of who may send what where: for each sender, receiver and kind, the places as in
// places, in hexadecimal.
var expected = map[string]string{
	"sidecar>coordinator": "put=0123456 log-get=0123456 subscribe=2 home-read=012 home-commit=012 " +
		"home-wait=012 scan=012",
	"sidecar>middleman": "get=0123456 dep-check=0123456 count=0123456 scan=0123456 ping=0123456",
	"sidecar>cache":     "get=012 cut=012 ping=012 lease=012 invalidate-ack=012 stream-reset=012",

	"coordinator>sidecar": "put-reply=0123456 complete=0123456 log-reply=0123456 vectors=1 latencies=1 " +
		"home-reply=012 home-wake=012 scan-reply=012 homes=012",
	"coordinator>coordinator": "vectors=125 term=2a term-answer=2 home-vote=2 term-reply=19 term-query=1 " +
		"home-change=1 home-verdict=012 signed-vectors=5 group=7 format-query=1257 format-reply=1257",
	"coordinator>middleman": "put-after=0123456 stable=0123456 lane-sync=0123456 ping=0123456 past-query=0123456 " +
		"past-reply=0123456 salvage=0123456 vectors=1 adopt-query=156 adopt-put=156 adopt-step=156 dep-check=0123456 " +
		"format-query=1",
	"coordinator>cache": "latencies=1 vectors=1",

	"middleman>sidecar": "get-reply=0123456 dep-status=0123456 count-reply=0123456 scan-reply=0123456 pong=0123456",
	"middleman>coordinator": "put-ack=0123456 lane-hello=0123456 pong=0123456 past-query=0123456 past-reply=0123456 " +
		"salvaged=0123456 adopt-held=25 adopt-state=25 dep-status=0123456 format-reply=2",
	"middleman>middleman": "dep-check=0123456 dep-status=0123456 frontier=0123 dep-probe=0123 dep-missing=0123 " +
		"ping=0123 pong=0123 pull=0123 pulled=0123 group=7 copy=7 get=0123456 get-reply=0123456 scan=0123456 " +
		"scan-reply=0123456 count=0123456 count-reply=0123456 past-query=0123456 past-reply=0123456 " +
		"format-query=7 format-reply=7",
	"middleman>cache": "fill-reply=0123456 lease-grant=0123456 invalidate=0123456 stream-reset=0123456 pong=0123456",

	"cache>sidecar":   "get-reply=012 pong=012 lease-grant=012 invalidate=012 stream-reset=012",
	"cache>middleman": "fill=0123456 stream-open=0123456 lease=0123456 invalidate-ack=0123456 ping=0123456",
}

func TestEveryCellIsPermittedOrRefusedAsExpected(t *testing.T) {
	top := three(t)
	parts := []topology.Part{topology.Sidecar, topology.Coordinator, topology.Middleman, topology.Cache}
	for _, from := range parts {
		for _, to := range parts {
			cell := fmt.Sprintf("%s>%s", from, to)
			want := map[string]string{}
			for _, w := range strings.Fields(expected[cell]) {
				kind, at, _ := strings.Cut(w, "=")
				want[kind] = at
			}
			for k := range causal.NumKinds {
				got := ""
				for i, p := range places {
					f, r := p.from, p.to
					f.Part, r.Part = from, to
					m := honest(k, f, r, top)
					if Check(&m, top) == Permitted {
						got += fmt.Sprintf("%x", i)
					}
				}
				if got != want[k.String()] {
					t.Errorf("%s: %s is permitted at the places %q; want %q", cell, k, got, want[k.String()])
				}
			}
		}
	}
}

func TestNobodySpeaksForOthers(t *testing.T) {
	top := three(t)
	checked := map[Content]int{}
	for _, r := range Table {
		for _, k := range r.Kinds {
			for _, p := range places {
				from, to := p.from, p.to
				from.Part, to.Part = r.From, r.To
				m := honest(k, from, to, top)
				if Check(&m, top) != Permitted || !r.Place.holds(from, to, top) || overlaps(r, k, from, to, top) {
					continue
				}
				f := m.Fields()
				const foreign = 40 // an origin of data center c, and of neither end
				switch r.Content {
				case OriginSender, OriginReceiver, OriginsSender, OriginsNamed:
					switch {
					case m.Body() != nil:
						speakOf(m.Body(), foreign)
					case len(f.Versions) > 0:
						f.Versions = append(f.Versions, causal.Version{HLC: 6, Origin: foreign})
					case len(f.Vectors) > 0:
						f.Vectors[0].Last = foreign
					default:
						f.Record.Version.Origin = foreign
					}
				case RingSender:
					f.Ring = 1 - f.Ring
				default:
					continue
				}
				checked[r.Content]++
				if got := Check(&m, top); got != ForeignData {
					t.Errorf("%s from %v to %v with %s replaced: %s", k, from, to, r.Content, got)
				}
			}
		}
	}
	for c := OriginSender; c <= OriginsNamed; c++ {
		if checked[c] == 0 {
			t.Errorf("%s was not checked", c)
		}
	}
}

// speakOf makes the versions and vectors of a body be of an origin.
func speakOf(b causal.Body, o topology.Origin) {
	b.Visit(causal.VisitorFunc(func(_ causal.BodyField, p any) {
		switch p := p.(type) {
		case *causal.Version:
			p.Origin = o
		case *causal.Record:
			p.Version.Origin = o
		case *[]causal.VectorEntry:
			(*p)[0].Last = o
		}
	}))
}

// A leader speaks for its own data center, and passes on what others have signed.
func TestALeaderSpeaksForItsOwnDataCenterOnly(t *testing.T) {
	top := three(t)
	leaderB, leaderC := top.Leader(1), top.Leader(2)
	vectors := func(entries ...causal.VectorEntry) causal.Message {
		return causal.Vectors{Entries: entries}.Message(leaderC, leaderB)
	}
	signed := func(v causal.SignedVectors) causal.Message { return v.Message(leaderC, leaderB) }
	ofA, ofC := causal.VectorEntry{Origin: 1, Last: 16, SV: 5}, causal.VectorEntry{Origin: 33, Last: 48, SV: 5}
	for name, c := range map[string]struct {
		m    causal.Message
		want Reason
	}{
		"all of its own":             {vectors(ofC), Permitted},
		"one of its own":             {vectors(causal.VectorEntry{Origin: 34, RV: []causal.HLC{1, 2}}), Permitted},
		"nothing":                    {vectors(), Permitted},
		"those of another one":       {vectors(ofA), ForeignData},
		"those of the receiver":      {vectors(causal.VectorEntry{Origin: 17, SV: 5}), ForeignData},
		"both":                       {vectors(ofA, ofC), ForeignData},
		"a range that begins before": {vectors(causal.VectorEntry{Origin: 32, Last: 33, SV: 5}), ForeignData},
		"a range that ends after":    {vectors(causal.VectorEntry{Origin: 48, Last: 49, SV: 5}), ForeignData},
		"no origin":                  {vectors(causal.VectorEntry{SV: 5}), ForeignData},
		"the same twice":             {vectors(ofC, ofC), ForeignData},
		"a ring that does not exist": {vectors(causal.VectorEntry{Origin: 33, RV: []causal.HLC{1, 2, 3}}),
			ForeignData},
		"signed by another one": {signed(causal.SignedVectors{DC: 0, Entries: []causal.VectorEntry{ofA}}),
			Permitted},
		"signed by itself": {signed(causal.SignedVectors{DC: 2, Entries: []causal.VectorEntry{ofC}}),
			Permitted},
		"signed for another one": {signed(causal.SignedVectors{DC: 2, Entries: []causal.VectorEntry{ofA}}),
			ForeignData},
		"signed by nobody that exists": {signed(causal.SignedVectors{DC: 3,
			Entries: []causal.VectorEntry{{Origin: 49}}}), ForeignData},
		"with a seal without end": {signed(causal.SignedVectors{DC: 2, Seal: make([]byte, causal.MaxSealBytes+1)}),
			ForeignData},
	} {
		if got := Check(&c.m, top); got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
	}
	for _, from := range []topology.Node{{Part: topology.Coordinator, DC: 2, Index: 1},
		{Part: topology.Middleman, DC: 2}, {Part: topology.Sidecar, DC: 2}} {
		m := causal.SignedVectors{DC: 2, Entries: []causal.VectorEntry{ofC}}.Message(from, leaderB)
		if got := Check(&m, top); got != Forbidden {
			t.Errorf("signed vectors from %v: %s", from, got)
		}
	}
}

// overlaps reports whether a rule with free content permits the kind there as well.
func overlaps(r Rule, k causal.Kind, from, to topology.Node, top *topology.Topology) bool {
	return slices.ContainsFunc(Table, func(o Rule) bool {
		return o.From == r.From && o.To == r.To && o.Content == Free && slices.Contains(o.Kinds, k) &&
			o.Place.holds(from, to, top)
	})
}

func TestNodesOutsideTheTopologyAndUnknownKindsAreRefused(t *testing.T) {
	top := three(t)
	side, coord := topology.Node{Part: topology.Sidecar, Index: 9}, topology.Node{Part: topology.Coordinator}
	for _, c := range []struct {
		m    causal.Message
		want Reason
	}{
		{causal.Message{Kind: causal.NumKinds, From: side, To: coord}, Unknown},
		{causal.Message{Kind: causal.KindPut, From: topology.Node{Part: topology.Sidecar, DC: 3}, To: coord},
			Forbidden},
		{causal.Message{Kind: causal.KindPut, From: side, To: topology.Node{Part: topology.Coordinator, DC: 3}},
			Forbidden},
		{causal.Message{Kind: causal.KindPut, From: topology.Node{Part: 200}, To: coord}, Forbidden},
		{causal.Message{Kind: causal.KindPut, From: side, To: topology.Node{Part: 200}}, Forbidden},
		{causal.Message{Kind: causal.KindNone, From: side, To: coord}, Forbidden},
	} {
		if got := Check(&c.m, top); got != c.want {
			t.Errorf("%s from %v to %v: %s; want %s", c.m.Kind, c.m.From, c.m.To, got, c.want)
		}
	}
}

func TestACheckAllocatesNothing(t *testing.T) {
	top := three(t)
	m := honest(causal.KindPut, topology.Node{Part: topology.Sidecar, Index: 9},
		topology.Node{Part: topology.Coordinator}, top)
	if n := testing.AllocsPerRun(100, func() { Check(&m, top) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestEveryKindIsInTheTable(t *testing.T) {
	for k := causal.KindNone + 1; k < causal.NumKinds; k++ {
		if !slices.ContainsFunc(Table, func(r Rule) bool { return slices.Contains(r.Kinds, k) }) {
			t.Errorf("nobody may send %s", k)
		}
	}
}

// document returns the table as the documentation has it.
func document() string {
	var b strings.Builder
	b.WriteString("| sender | receiver | messages | only if | about |\n| --- | --- | --- | --- | --- |\n")
	for _, r := range Table {
		var kinds []string
		for _, k := range r.Kinds {
			kinds = append(kinds, "`"+k.String()+"`")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.From, r.To, strings.Join(kinds, ", "), r.Place, r.Content)
	}
	return b.String()
}

func TestTheDocumentationHasTheTable(t *testing.T) {
	b, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), document()) {
		t.Errorf("docs/security.md does not have this table:\n%s", document())
	}
}

func BenchmarkCheck(b *testing.B) {
	top := three(b)
	m := honest(causal.KindPut, topology.Node{Part: topology.Sidecar, Index: 9},
		topology.Node{Part: topology.Coordinator}, top)
	for b.Loop() {
		Check(&m, top)
	}
}
