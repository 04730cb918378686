package local_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

// pageClient makes requests as the page does.
type pageClient struct {
	t     *testing.T
	admin http.Handler
}

func newPageClient(t *testing.T) (*local.Deployment, pageClient) {
	d := start(t, local.Options{Scope: node.ScopePod, Cache: true, WAN: true})
	return d, pageClient{t, d.Admin()}
}

// do makes a request and decodes the reply, if there is one.
func (p pageClient) do(method, path string, body, reply any) {
	p.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(p.t.Context(), method, path, bytes.NewReader(b))
	r.Host = "localhost:7000"
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	p.admin.ServeHTTP(w, r)
	if w.Code/100 != 2 {
		p.t.Fatalf("%s %s: status %d: %s", method, path, w.Code, w.Body)
	}
	if reply != nil {
		if err := json.Unmarshal(w.Body.Bytes(), reply); err != nil {
			p.t.Fatalf("%s %s: %v: %s", method, path, err, w.Body)
		}
	}
}

// await polls until a condition holds.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func (p pageClient) write(dc, key, value string) (tr console.WriteTrace) {
	p.do(http.MethodPost, "/console/trace", map[string]string{"dataCenter": dc, "key": key, "value": value}, &tr)
	return tr
}

func (p pageClient) trace(id uint64) (tr console.WriteTrace) {
	p.do(http.MethodGet, fmt.Sprintf("/console/trace?id=%d", id), nil, &tr)
	return tr
}

func (p pageClient) view(key string) (v console.KeyView) {
	p.do(http.MethodGet, "/console/key?key="+key, nil, &v)
	return v
}

func (p pageClient) snapshot() (s console.Snapshot) {
	p.do(http.MethodGet, fmt.Sprintf("/console/snapshot?at=%d", time.Now().Add(time.Hour).UnixMilli()), nil, &s)
	return s
}

func TestATracedWriteIsSeenInEveryRingAndLeavesTheCaches(t *testing.T) {
	_, p := newPageClient(t)
	complete := func(value string) (tr console.WriteTrace) {
		tr = p.write("us-east-1", "post:1", value)
		await(t, "the write is complete", func() bool { tr = p.trace(tr.ID); return tr.CompleteMs != nil })
		return tr
	}
	complete("first")
	await(t, "readers get it from their caches", func() bool {
		return !slices.ContainsFunc(p.view("post:1").Readers, func(r console.KeyReading) bool {
			return r.Value != "first" || !r.Stable || r.Source != "cache" || len(r.Rings) != 3
		})
	})
	tr := complete("second")
	if tr.AcceptedMs == nil || tr.Version == "" || tr.Error != "" || len(tr.Rings) != 3 {
		t.Fatalf("trace: %+v", tr)
	}
	for _, r := range tr.Rings {
		if r.ReceivedMs == nil || r.VisibleMs == nil || r.AcknowledgedMs == nil ||
			!(*r.ReceivedMs <= *r.VisibleMs && *r.VisibleMs <= *r.AcknowledgedMs) {
			t.Errorf("ring %s: received, visible, acknowledged after %v, %v, %v ms", r.Ring, r.ReceivedMs, r.VisibleMs,
				r.AcknowledgedMs)
		}
	}
	if len(tr.Caches) != 8 {
		t.Errorf("%d caches were told to drop the value before: %+v; want 8", len(tr.Caches), tr.Caches)
	}
	for _, r := range p.view("post:1").Rings {
		if r.Value != "second" || r.Version != tr.Version {
			t.Errorf("ring %s has %q, version %s; want version %s", r.Ring, r.Value, r.Version, tr.Version)
		}
	}
	// Of all this, only what is read as a client counts as an operation.
	p.readAsClient("eu-west-1", "post:1")
	sites := p.snapshot().DataCenters
	var counted []string
	await(t, "the read as a client is counted", func() bool {
		var h console.History
		p.do(http.MethodGet, "/console/history", nil, &h)
		counted = nil
		for _, f := range h.Frames {
			for i, point := range f.Points {
				if name := sites[i].Name; point.Reads != nil && *point.Reads > 0 {
					counted = append(counted, "reads in "+name)
				} else if point.Writes != nil && *point.Writes > 0 {
					counted = append(counted, "writes in "+name)
				}
			}
		}
		return slices.Contains(counted, "reads in eu-west-1")
	})
	if len(counted) > 1 {
		t.Errorf("counted: %q; want the read as a client only, once", counted)
	}
}

func TestATracedWriteNamesTheDataCenterThatAcceptedIt(t *testing.T) {
	_, p := newPageClient(t)
	accepted := func(dc, key string) (tr console.WriteTrace) {
		t.Helper()
		tr = p.write(dc, key, "x")
		await(t, "the write is accepted", func() bool {
			if tr = p.trace(tr.ID); tr.Error != "" {
				t.Fatal(tr.Error)
			}
			return tr.AcceptedMs != nil
		})
		return tr
	}
	crash := func(dc string) {
		t.Helper()
		index := uint64(0)
		p.do(http.MethodPost, "/fault", local.Fault{Kind: "crash", DC: dc, Part: "coordinator", Index: &index}, nil)
	}
	isElsewhere := func(dc string, tr console.WriteTrace) {
		t.Helper()
		var v causal.Version
		if _, err := fmt.Sscanf(tr.Version, "%d@%d", &v.HLC, &v.Origin); err != nil {
			t.Fatal(err)
		}
		topo := topology.Default()
		if want := topo.DCs[topo.CoordinatorOf(v.Origin).DC].Name; tr.AcceptedIn != want || want == dc ||
			tr.DataCenter != dc {
			t.Errorf("written in %s, accepted in %s; want %s and the origin of version %s, %s", tr.DataCenter,
				tr.AcceptedIn, dc, tr.Version, want)
		}
	}
	crash("us-west-1") // before the sidecars of the page start, which they do with their first use
	if tr := accepted("us-east-1", "post:5"); tr.AcceptedIn != "us-east-1" {
		t.Errorf("accepted in %q; want us-east-1", tr.AcceptedIn)
	}
	isElsewhere("us-west-1", accepted("us-west-1", "post:6"))
	crash("us-east-1")
	isElsewhere("us-east-1", accepted("us-east-1", "post:7"))
}

func TestThePageSaysWhatACutDoes(t *testing.T) {
	_, p := newPageClient(t)
	if s := p.snapshot(); len(s.DataCenters) != 8 || len(s.Links) != 28 {
		t.Fatalf("%d data centers, %d links", len(s.DataCenters), len(s.Links))
	}
	// round trips on a busy machine may look slow at first
	await(t, "there is no problem", func() bool { return len(p.snapshot().Problems) == 0 })
	p.do(http.MethodPost, "/fault", local.Fault{Kind: "cut", From: "sa-east-1", To: "*"}, nil)
	await(t, "the snapshot shows the cut", func() bool {
		s := p.snapshot()
		cut := 0
		for _, l := range s.Links {
			if l.CutAB && l.CutBA && l.RoundTripMs == nil {
				cut++
			}
		}
		return cut == 7 && len(s.Problems) > 0 && s.Problems[0].Runbook == "CausalStorePeersDisconnected" &&
			s.Problems[0].DataCenter == "sa-east-1"
	})
	for _, problem := range p.snapshot().Problems {
		if strings.Contains(problem.Text, "cut off") &&
			!strings.Contains(problem.Text, "gets OK at once, and is not complete until") {
			t.Errorf("the problem says %q; want what a writer gets", problem.Text)
		}
	}
	tr := p.write("us-east-1", "post:2", "x")
	var reader console.KeyReading
	await(t, "a reader next door has the value, bound", func() bool {
		i := slices.IndexFunc(p.view("post:2").Readers, func(r console.KeyReading) bool {
			return r.DataCenter == "us-west-1"
		})
		reader = p.view("post:2").Readers[i]
		return reader.Value == "x"
	})
	if reader.Stable || slices.Contains(reader.Rings, "south-america") {
		t.Errorf("reader: %+v; want it bound to the other rings", reader)
	}
	if len(p.bound("us-west-1")) != 0 {
		t.Error("a watched key binds sessions of clients")
	}
	if tr = p.trace(tr.ID); tr.CompleteMs != nil {
		t.Errorf("the write is complete, though a ring is cut off: %+v", tr)
	}
	p.do(http.MethodPost, "/fault", local.Fault{Kind: "heal"}, nil)
	await(t, "the write is complete after the cut", func() bool { return p.trace(tr.ID).CompleteMs != nil })
	await(t, "there is no problem any more", func() bool { return len(p.snapshot().Problems) == 0 })
	var h console.History
	p.do(http.MethodGet, "/console/history", nil, &h)
	var marks []string
	for _, m := range h.Marks {
		marks = append(marks, m.Kind+": "+m.Text)
		if m.Kind == console.MarkWrite && m.Trace != tr.ID {
			t.Errorf("the mark of the write names trace %d; want %d", m.Trace, tr.ID)
		}
	}
	for _, want := range []string{"fault: cut between sa-east-1 and all others", "write: write of post:2 in us-east-1",
		"heal: heal everything"} {
		if !slices.Contains(marks, want) {
			t.Errorf("no mark %q in %v", want, marks)
		}
	}
}

// marks returns the events as "kind: text".
func (p pageClient) marks() (all []string) {
	var h console.History
	p.do(http.MethodGet, "/console/history", nil, &h)
	for _, m := range h.Marks {
		all = append(all, m.Kind+": "+m.Text)
	}
	return all
}

func (p pageClient) readAsClient(dc, key string) (r console.KeyReading) {
	p.do(http.MethodPost, "/console/read", map[string]string{"dataCenter": dc, "key": key}, &r)
	return r
}

// bound returns the sessions of a data center that the page lists.
func (p pageClient) bound(name string) []console.Session {
	for _, dc := range p.snapshot().DataCenters {
		if dc.Name == name {
			return dc.Listed
		}
	}
	return nil
}

func TestAReadAsAClientBindsAListedSession(t *testing.T) {
	for scope, level := range map[node.Scope]causal.Level{node.ScopePod: causal.Latest,
		node.ScopeConnection: causal.Latest, node.ScopeDataCenter: causal.Snapshot} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			d := start(t, local.Options{Scope: scope, Level: level, Cache: true, WAN: true})
			p := pageClient{t, d.Admin()}
			p.do(http.MethodPost, "/fault", local.Fault{Kind: "cut", From: "sa-east-1", To: "*"}, nil)
			p.write("us-east-1", "post:4", "x")
			var r console.KeyReading
			await(t, "a client next door reads it", func() bool {
				r = p.readAsClient("us-west-1", "post:4")
				return r.Value == "x"
			})
			if len(r.Rings) == 0 || slices.Contains(r.Rings, "south-america") {
				t.Errorf("read: %+v; want it to bind the session to other rings than south-america", r)
			}
			await(t, "the session is listed, with what has bound it", func() bool {
				s := p.bound("us-west-1")
				return len(s) == 1 && slices.Equal(s[0].WaitsFor, []string{"south-america"}) &&
					s[0].OldestKey == "post:4" && s[0].OldestFrom == "us-east-1" &&
					s[0].OldestSlot == uint16(topology.SlotOf("post:4"))
			})
			p.do(http.MethodPost, "/fault", local.Fault{Kind: "reconnect", From: "sa-east-1", To: "*"}, nil)
			await(t, "the session is released", func() bool { return len(p.bound("us-west-1")) == 0 })
			for _, want := range []string{"read: read of post:4 as a client of us-west-1: its session is bound to ",
				"session: a session of us-west-1 is bound: it waits for ",
				"session: a session of us-west-1 is released"} {
				if marks := p.marks(); !slices.ContainsFunc(marks, func(m string) bool {
					return strings.HasPrefix(m, want)
				}) {
					t.Errorf("no event %q in %q", want, marks)
				}
			}
		})
	}
}

func TestTheEndOfAFaultIsNoFault(t *testing.T) {
	_, p := newPageClient(t)
	delay := func(ms int) {
		p.do(http.MethodPost, "/fault", local.Fault{Kind: "congest", DC: "eu-west-1", AddMs: ms}, nil)
	}
	added := func() (ms int64) {
		for _, dc := range p.snapshot().DataCenters {
			ms += dc.AddedDelayMs
		}
		return ms
	}
	delay(600)
	await(t, "the delay is shown", func() bool { return added() == 600 })
	delay(0)
	await(t, "the end of the delay is shown", func() bool { return added() == 0 })
	p.do(http.MethodPost, "/fault", local.Fault{Kind: "cut", From: "eu-west-1", To: "us-east-1"}, nil)
	p.do(http.MethodPost, "/fault", local.Fault{Kind: "reconnect", From: "us-east-1", To: "eu-west-1"}, nil)
	await(t, "no link is cut", func() bool {
		return !slices.ContainsFunc(p.snapshot().Links, func(l console.Link) bool { return l.CutAB || l.CutBA })
	})
	marks := p.marks()
	for _, want := range []string{"fault: delay the links of eu-west-1 by 600 ms each way",
		"heal: end the delay of the links of eu-west-1",
		"fault: cut between eu-west-1 and us-east-1", "heal: reconnect us-east-1 and eu-west-1"} {
		if !slices.Contains(marks, want) {
			t.Errorf("no mark %q in %v", want, marks)
		}
	}
}

// The page goes through the rings of every reading: null in their place would end it.
func TestAReadThatIsNotAnsweredIsShownAsUnknown(t *testing.T) {
	_, p := newPageClient(t)
	p.write("us-east-1", "post:5", "x")
	for _, r := range p.view("post:5").Rings {
		p.do(http.MethodPost, "/fault", local.Fault{Kind: "pause", DC: r.DataCenter, Part: "middleman",
			Index: &r.Shard}, nil)
	}
	var v console.KeyView
	await(t, "no data center has an answer", func() bool {
		v = p.view("post:5")
		return !slices.ContainsFunc(v.Readers, func(r console.KeyReading) bool { return r.Unknown == "" })
	})
	for _, r := range v.Readers {
		if r.Rings == nil {
			t.Errorf("%s: the rings are null", r.DataCenter)
		}
	}
}

func TestThePageShowsWhatIsDownAsUnknown(t *testing.T) {
	_, p := newPageClient(t)
	index := uint64(0)
	p.do(http.MethodPost, "/fault", local.Fault{Kind: "crash", DC: "eu-west-1", Part: "coordinator", Index: &index},
		nil)
	of := func(s console.Snapshot) *console.DataCenter {
		return &s.DataCenters[slices.IndexFunc(s.DataCenters, func(d console.DataCenter) bool {
			return d.Name == "eu-west-1"
		})]
	}
	await(t, "the coordinator is down", func() bool { return of(p.snapshot()).Parts[0].State == console.PartDown })
	dc := of(p.snapshot())
	if dc.InFlight != nil || dc.BufferBytes != nil || dc.SVLagMs != nil || dc.RingLagMs["asia-pacific"] != nil {
		t.Errorf("the state of a coordinator that is down is not unknown: %+v", dc)
	}
	if dc.Parts[0].SinceMs == nil || dc.Parts[0].Version != "" {
		t.Errorf("part: %+v; want since when it is down, and no version", dc.Parts[0])
	}
}

func TestForeignPagesCannotWrite(t *testing.T) {
	_, p := newPageClient(t)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/console/trace",
		strings.NewReader(`{"dataCenter":"us-east-1","key":"k","value":"v"}`))
	r.Host = "localhost:7000"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", "https://evil.example")
	w := httptest.NewRecorder()
	p.admin.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("a write of another origin: status %d", w.Code)
	}
	r.Header.Del("Origin")
	r.Header.Set("Content-Type", "text/plain")
	w = httptest.NewRecorder()
	p.admin.ServeHTTP(w, r)
	if w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("a write that a form can send: status %d", w.Code)
	}
}
