package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/docs"
)

//go:embed web/dist
var embedded embed.FS

// maxStreams bounds the pages that are open at a time.
const maxStreams = 64

// contentPolicy lets the page use what this server serves, and nothing else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Server serves the page and its data. Who may reach it is up to the caller.
type Server struct {
	layout   []byte
	recorder *Recorder
	assets   map[string]asset
	streams  atomic.Int32
	mux      *http.ServeMux
}

type asset struct {
	content []byte
	kind    string
	tag     string
}

// NewServer returns a server of the page at / and of its data below /console.
func NewServer(l Layout, r *Recorder) *Server {
	l.IntervalMs = r.interval.Milliseconds()
	l.FactsAgeMs = max(l.FactsAgeMs, l.IntervalMs)
	layout, err := json.Marshal(l)
	if err != nil {
		panic(err) // unreachable: the types can always be encoded
	}
	s := &Server{layout: layout, recorder: r, assets: map[string]asset{}, mux: http.NewServeMux()}
	for path, name := range map[string]struct{ file, kind string }{
		"/{$}":         {"index.html", "text/html; charset=utf-8"},
		"/console.js":  {"console.js", "text/javascript; charset=utf-8"},
		"/console.css": {"console.css", "text/css; charset=utf-8"},
		"/icon.svg":    {"icon.svg", "image/svg+xml"},
	} {
		content, err := fs.ReadFile(embedded, "web/dist/"+name.file)
		if err != nil {
			panic(err) // unreachable: a test reads all of them
		}
		sum := sha256.Sum256(content)
		a := asset{content, name.kind, `"` + hex.EncodeToString(sum[:8]) + `"`}
		s.mux.HandleFunc("GET "+path, a.serve)
	}
	s.mux.HandleFunc("GET /console/layout", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.layout) })
	s.mux.HandleFunc("GET /console/runbook", serveRunbook)
	s.mux.HandleFunc("GET /console/events", s.serveEvents)
	s.mux.HandleFunc("GET /console/history", s.serveHistory)
	s.mux.HandleFunc("GET /console/snapshot", s.serveSnapshot)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	s.mux.ServeHTTP(w, r)
}

func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", a.kind)
	// ask whether it has changed: another build may be served here next time
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", a.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
}

func writeJSON(w http.ResponseWriter, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b) // an error means that the reader has gone
}

// serveRunbook serves what to do about a problem: the page needs no connection to the Internet.
func serveRunbook(w http.ResponseWriter, r *http.Request) {
	text, ok := docs.Runbook(r.URL.Query().Get("name"))
	if !ok {
		http.Error(w, "give the name of a section of the runbooks as name, such as CausalStorePartDown",
			http.StatusNotFound)
		return
	}
	b, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		panic(err) // unreachable: texts can always be encoded
	}
	writeJSON(w, b)
}

func (s *Server) serveHistory(w http.ResponseWriter, _ *http.Request) {
	b, err := json.Marshal(s.recorder.history())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, b)
}

// serveSnapshot serves the snapshot of a time, or the newest one.
func (s *Server) serveSnapshot(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("at") {
		writeJSON(w, s.recorder.news().newest.unpack())
		return
	}
	at, err := strconv.ParseInt(r.URL.Query().Get("at"), 10, 64)
	if err != nil {
		http.Error(w, "give the time as at, in milliseconds since 1970", http.StatusBadRequest)
		return
	}
	writeJSON(w, s.recorder.at(at).unpack())
}

// serveEvents streams snapshots. A reader that is slow skips some.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		http.Error(w, fmt.Sprintf("%d pages are open already; close some", maxStreams), http.StatusServiceUnavailable)
		return
	}
	defer s.streams.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	var sent int64
	marked := uint64(0)
	for first := true; ; first = false {
		n := s.recorder.news()
		// A reader that takes nothing for so long has gone.
		_ = out.SetWriteDeadline(time.Now().Add(30 * time.Second)) // not every ResponseWriter has deadlines
		if first || n.marked != marked {
			marked = n.marked
			writeEvent(w, "marks", n.marks)
		}
		if n.newest.atMs != sent {
			sent = n.newest.atMs
			writeEvent(w, "snapshot", json.RawMessage(n.newest.unpack()))
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-n.changed:
		case <-r.Context().Done():
			return
		case <-s.recorder.done:
			return
		}
	}
}

func writeEvent(w http.ResponseWriter, kind string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // unreachable: the types can always be encoded
	}
	_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b) // the next flush fails too if the reader has gone
}
