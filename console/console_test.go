package console

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// source is a deployment whose state the test sets.
type source struct {
	atMs   atomic.Int64 // advances by a second with each snapshot
	writes atomic.Uint64
	down   atomic.Bool
}

func (s *source) take() Snapshot {
	part := Part{Name: "cache 0", Kind: "cache", State: PartServing}
	dc := DataCenter{Name: "a", Counters: &Counters{Writes: s.writes.Load()}, Listed: []Session{{ID: 1, Reads: 1}}}
	if s.down.Load() {
		part.State, dc.Listed = PartDown, nil
	}
	dc.Parts = []Part{part}
	return Snapshot{AtMs: s.atMs.Add(1000), DataCenters: []DataCenter{dc}}
}

// still returns a recorder that records only when it is told to.
func still(s *source) *Recorder {
	return &Recorder{take: s.take, now: make(chan struct{}, 1), done: make(chan struct{}), changed: make(chan struct{}),
		parts: map[string]partSince{}, bound: map[sessionID]boundSince{}}
}

func TestTheRecorderMakesRatesAndDurations(t *testing.T) {
	s := &source{}
	r := still(s)
	r.record()
	if rates := r.last.DataCenters[0].Rates; rates != nil {
		t.Errorf("rates of one snapshot: %+v; want unknown", rates)
	}
	s.writes.Store(7)
	r.record()
	dc := r.last.DataCenters[0]
	if dc.Rates == nil || dc.Rates.Writes != 7 {
		t.Errorf("rates: %+v; want 7 writes per second", dc.Rates)
	}
	if dc.Parts[0].SinceMs != nil {
		t.Errorf("a part that has served since the beginning: %d ms; want unknown", *dc.Parts[0].SinceMs)
	}
	if dc.Listed[0].SinceMs != 1000 {
		t.Errorf("the session is bound since %d ms; want 1000", dc.Listed[0].SinceMs)
	}
	s.down.Store(true)
	r.record()
	r.record()
	if p := r.last.DataCenters[0].Parts[0]; p.SinceMs == nil || *p.SinceMs != 1000 {
		t.Errorf("down since %v; want 1000 ms", p.SinceMs)
	}
	if got := marksOf(r, MarkChange); !slices.Equal(got, []string{"cache 0 of a: down, was serving"}) {
		t.Errorf("marks: %q", got)
	}
}

// marksOf returns the texts of the marks of a kind.
func marksOf(r *Recorder, kind string) (texts []string) {
	for _, m := range r.marks {
		if m.Kind == kind {
			texts = append(texts, m.Text)
		}
	}
	return texts
}

func TestTheBeginAndTheEndOfABoundSessionAreMarked(t *testing.T) {
	bound, listed := 0, []Session{}
	at := int64(0)
	take := func() Snapshot {
		at += 1000
		return Snapshot{AtMs: at, DataCenters: []DataCenter{{Name: "a", Bound: &bound, Listed: listed}}}
	}
	r := &Recorder{take: take, changed: make(chan struct{}), parts: map[string]partSince{},
		bound: map[sessionID]boundSince{}}
	set := func(n int, is ...Session) {
		bound, listed = n, append([]Session{}, is...)
		r.record()
	}
	set(1, Session{ID: 7, WaitsFor: []string{"south"}})
	set(30, Session{ID: 8}) // it may be one of those that are not listed
	set(1, Session{ID: 7, WaitsFor: []string{"south"}})
	want := []string{"a session of a is bound: it waits for south", "a session of a is bound",
		"a session of a is released"}
	if got := marksOf(r, MarkSession); !slices.Equal(got, want) {
		t.Errorf("marks: %q; want %q", got, want)
	}
	set(0)
	want = append(want, "a session of a is released")
	if got := marksOf(r, MarkSession); !slices.Equal(got, want) {
		t.Errorf("marks: %q; want %q", got, want)
	}
	for id := range uint64(50) { // a load: each snapshot has another bound session
		set(1, Session{ID: 100 + id})
	}
	set(0)
	if n := len(marksOf(r, MarkSession)); n != 2*maxBinds {
		t.Errorf("%d marks of sessions in less than a minute; want %d", n, 2*maxBinds)
	}
}

func TestTheRecorderKeepsTenMinutes(t *testing.T) {
	s := &source{}
	r := still(s)
	for range 700 {
		r.record()
	}
	if n, want := len(r.frames), int(Retention/Interval)+1; n != want {
		t.Errorf("%d snapshots are kept; want %d", n, want)
	}
	for _, c := range []struct{ at, want int64 }{{0, 100_000}, {500_500, 500_000}, {9_000_000, 700_000}} {
		var got Snapshot
		if err := json.Unmarshal(r.at(c.at).unpack(), &got); err != nil {
			t.Fatal(err)
		}
		if got.AtMs != c.want {
			t.Errorf("the snapshot at %d is that of %d; want %d", c.at, got.AtMs, c.want)
		}
	}
	if h := r.history(); len(h.Frames) != len(r.frames) || len(h.Frames[0].Points) != 1 {
		t.Errorf("the history has %d frames", len(h.Frames))
	}
}

func TestEveryReplyForbidsForeignContent(t *testing.T) {
	r := NewRecorder(Interval, (&source{}).take)
	defer r.Close()
	s := NewServer(Layout{Rings: []string{"r"}}, r)
	for path, kind := range map[string]string{"/": "text/html", "/console.js": "text/javascript",
		"/console.css": "text/css", "/icon.svg": "image/svg+xml",
		"/console/layout": "application/json", "/console/history": "application/json",
		"/console/runbook?name=CausalStorePartDown": "application/json", "/console/snapshot?at=5": "application/json",
		"/console/snapshot": "application/json"} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || w.Body.Len() == 0 {
			t.Errorf("%s: status %d, type %q, %d bytes", path, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") ||
			w.Header().Get("Set-Cookie") != "" {
			t.Errorf("%s: policy %q, cookie %q", path, policy, w.Header().Get("Set-Cookie"))
		}
		if strings.Contains(w.Body.String(), "sourceMappingURL") {
			t.Errorf("%s names a source map", path)
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console/snapshot?at=x", nil))
	if w.Code != http.StatusBadRequest {
		t.Errorf("a snapshot at no time: status %d", w.Code)
	}
}

func TestEachProblemOfAPartHasARunbook(t *testing.T) {
	s := NewServer(Layout{}, still(&source{}))
	get := func(name string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console/runbook?name="+name, nil))
		return w
	}
	dc := DataCenter{Name: "a", BufferBytes: new(int64), BufferLimitBytes: new(int64), RingLagMs: map[string]*int64{},
		Parts: []Part{{Name: "cache 0", Kind: "cache", State: PartDown},
			{Name: "cache 1", Kind: "cache", State: PartIdle}}}
	*dc.BufferBytes = 1
	dc.RingLagMs["r"] = ptr[int64](60_000)
	problems := append(PartProblems(&dc), LagProblems(&dc)...)
	if len(problems) != 4 {
		t.Fatalf("%d problems: %+v; want 4", len(problems), problems)
	}
	for _, p := range problems {
		var reply struct{ Text string }
		if w := get(p.Runbook); w.Code != http.StatusOK || json.Unmarshal(w.Body.Bytes(), &reply) != nil ||
			!strings.Contains(reply.Text, "**What to do.**") || strings.Contains(reply.Text, "## ") {
			t.Errorf("%s: status %d: %s", p.Runbook, w.Code, w.Body)
		}
	}
	if w := get("NoSuchAlert"); w.Code != http.StatusNotFound {
		t.Errorf("a runbook that does not exist: status %d", w.Code)
	}
}

func TestAnEventIsStreamedAtOnce(t *testing.T) {
	r := NewRecorder(Interval, (&source{}).take)
	defer r.Close()
	server := httptest.NewServer(NewServer(Layout{}, r))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/console/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	snapshots := 0
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "event: snapshot") {
			if snapshots++; snapshots == 1 {
				r.Mark(Mark{Kind: MarkFault, Text: "something breaks"})
			}
		}
		if strings.Contains(lines.Text(), "something breaks") {
			return
		}
	}
	t.Errorf("the mark was not streamed; %d snapshots were: %v", snapshots, lines.Err())
}
