package canary

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// Paths that a canary serves, after its token.
const (
	PathReport = "report" // GET ?incarnation=NAME&bytes=N&samples=N: a Report
	PathStop   = "stop"   // POST: ends the sessions
	PathFinal  = "final"  // POST ?round=N: reads every key; JSON lines
	PathDelete = "delete" // POST: deletes the keys
	PathReady  = "/readyz"
)

// Handler serves a canary at paths that begin with a token, which only who started the canary knows.
func (c *Canary) Handler(token string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathReady, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /"+token+"/"+PathReport, func(w http.ResponseWriter, r *http.Request) {
		from := Position{Incarnation: r.URL.Query().Get("incarnation")}
		from.Bytes, _ = strconv.Atoi(r.URL.Query().Get("bytes")) // without a number, from the start
		from.Samples, _ = strconv.Atoi(r.URL.Query().Get("samples"))
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(c.Report(from)) // the client has gone, and asks again
	})
	mux.HandleFunc("POST /"+token+"/"+PathStop, func(http.ResponseWriter, *http.Request) { c.Stop() })
	mux.HandleFunc("POST /"+token+"/"+PathFinal, func(w http.ResponseWriter, r *http.Request) {
		round, err := strconv.Atoi(r.URL.Query().Get("round"))
		if err != nil {
			http.Error(w, "round: give a number", http.StatusBadRequest)
			return
		}
		lines, err := c.ReadFinally(round)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(lines)) // the client has gone, and asks again
	})
	mux.HandleFunc("POST /"+token+"/"+PathDelete, func(w http.ResponseWriter, _ *http.Request) {
		if err := c.Delete(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	return mux
}
