package local

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/topology"
)

// Limits of what the page writes and watches, in bytes.
const (
	maxPageKey   = 256
	maxPageValue = 1024
)

// page returns the page, with what only a deployment on this machine has: writes that are traced, and keys that are
// watched.
func (d *Deployment) page() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /", console.NewServer(d.layout(), d.record()))
	mux.HandleFunc("GET /console/key", d.serveKey)
	mux.HandleFunc("POST /console/read", d.serveRead)
	mux.HandleFunc("POST /console/trace", d.startTrace)
	mux.HandleFunc("GET /console/trace", d.serveTrace)
	return mux
}

// record starts the recorder of the page, once.
func (d *Deployment) record() *console.Recorder {
	d.recording.Lock()
	defer d.recording.Unlock()
	if d.recorder == nil {
		d.recorder = console.NewRecorder(console.Interval, d.snapshot)
	}
	return d.recorder
}

// markOnPage notes an event on the time line of the page, if there is one.
func (d *Deployment) markOnPage(kind, text string, trace uint64) {
	d.recording.Lock()
	r := d.recorder
	d.recording.Unlock()
	if r != nil {
		r.Mark(console.Mark{Kind: kind, Text: text, Trace: trace})
	}
}

func (d *Deployment) serveKey(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("key")
	if len(key) == 0 || len(key) > maxPageKey {
		http.Error(w, fmt.Sprintf("give a key of 1 to %d bytes", maxPageKey), http.StatusBadRequest)
		return
	}
	v, err := d.view(r.Context(), key)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	reply(w, v)
}

// dataCenterNamed returns a data center that a request names; false: it has been answered that there is none.
func (d *Deployment) dataCenterNamed(w http.ResponseWriter, name string) (topology.DC, bool) {
	dc, ok := d.topo.ByName(name)
	if !ok {
		http.Error(w, fmt.Sprintf("unknown data center %q", name), http.StatusBadRequest)
	}
	return dc, ok
}

// readRequest is the body of POST /console/read.
type readRequest struct {
	DataCenter string `json:"dataCenter"`
	Key        string `json:"key"`
}

// serveRead reads a key as a client of a data center does.
func (d *Deployment) serveRead(w http.ResponseWriter, r *http.Request) {
	var body readRequest
	if !decode(w, r, &body) {
		return
	}
	dc, ok := d.dataCenterNamed(w, body.DataCenter)
	if !ok {
		return
	}
	if len(body.Key) == 0 || len(body.Key) > maxPageKey {
		http.Error(w, fmt.Sprintf("give a key of 1 to %d bytes", maxPageKey), http.StatusBadRequest)
		return
	}
	reading := d.readAsClient(r.Context(), dc, body.Key)
	d.markOnPage(console.MarkRead, fmt.Sprintf("read of %s as a client of %s%s", body.Key, body.DataCenter,
		d.outcomeOf(&reading)), 0)
	reply(w, reading)
}

// outcomeOf says what a read as a client has led to, for the event of it.
func (d *Deployment) outcomeOf(r *console.KeyReading) string {
	switch {
	case r.Unknown != "":
		return ": nothing was read"
	case len(r.Rings) < len(d.topo.Rings):
		return ": its session is bound to " + strings.Join(r.Rings, ", ")
	}
	return ""
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v) // an error means that the reader has gone
}

// traceRequest is the body of POST /console/trace.
type traceRequest struct {
	DataCenter string `json:"dataCenter"`
	Key        string `json:"key"`
	Value      string `json:"value"`
}

func (d *Deployment) startTrace(w http.ResponseWriter, r *http.Request) {
	var body traceRequest
	if !decode(w, r, &body) {
		return
	}
	dc, ok := d.dataCenterNamed(w, body.DataCenter)
	if !ok {
		return
	}
	if len(body.Key) == 0 || len(body.Key) > maxPageKey || len(body.Value) > maxPageValue {
		http.Error(w, fmt.Sprintf("give a key of 1 to %d bytes and a value of up to %d", maxPageKey, maxPageValue),
			http.StatusBadRequest)
		return
	}
	id, err := d.write(context.WithoutCancel(r.Context()), dc, body.Key, body.Value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	d.markOnPage(console.MarkWrite, fmt.Sprintf("write of %s in %s", body.Key, body.DataCenter), id)
	t, _ := d.observer.tracer.get(id)
	reply(w, t)
}

func (d *Deployment) serveTrace(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(r.URL.Query().Get("id"), 10, 64)
	if err != nil {
		http.Error(w, "give the number of the trace as id", http.StatusBadRequest)
		return
	}
	t, ok := d.observer.tracer.get(id)
	if !ok {
		http.Error(w, fmt.Sprintf("trace %d is not known; the last %d are kept", id, maxTraces), http.StatusNotFound)
		return
	}
	reply(w, t)
}

// decode decodes the body of a request. It reports whether that worked, and otherwise has answered.
func decode(w http.ResponseWriter, r *http.Request, v any) bool {
	// A web page can send some types of content anywhere without asking the server first, but not this one.
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil ||
		mediaType != "application/json" {
		http.Error(w, "send the body with the header Content-Type: application/json, for example with curl --json",
			http.StatusUnsupportedMediaType)
		return false
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		http.Error(w, "body: "+err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

// markKind is the kind of the mark of a fault: one that ends another one is no fault.
func (f Fault) markKind() string {
	switch {
	case f.Kind == "heal", f.Kind == "reconnect", f.Kind == "restart", f.Kind == "resume",
		f.Kind == "congest" && f.AddMs == 0:
		return console.MarkHeal
	}
	return console.MarkFault
}

// String says what a fault does, for people.
func (f Fault) String() string {
	all := func(name string) string {
		if name == "*" {
			return "all others"
		}
		return name
	}
	part := f.Part
	if f.Index != nil {
		part += fmt.Sprintf(" %d", *f.Index)
	}
	if f.Member != 0 {
		part += fmt.Sprintf(" member %d", f.Member)
	}
	switch {
	case f.Kind == "cut" && f.OneWay:
		return fmt.Sprintf("cut from %s to %s", all(f.From), all(f.To))
	case f.Kind == "cut":
		return fmt.Sprintf("cut between %s and %s", all(f.From), all(f.To))
	case f.Kind == "reconnect":
		return fmt.Sprintf("reconnect %s and %s", all(f.From), all(f.To))
	case f.Kind == "congest" && f.AddMs == 0:
		return "end the delay of the links of " + f.DC
	case f.Kind == "congest":
		return fmt.Sprintf("delay the links of %s by %d ms each way", f.DC, f.AddMs)
	case f.Kind == "exclude":
		return "exclude " + f.DC
	case f.Kind == "heal":
		return "heal everything"
	}
	return fmt.Sprintf("%s %s of %s", f.Kind, part, f.DC)
}
