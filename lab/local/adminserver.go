package local

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/causalstore/causalstore/console"
)

// Admin serves the page at /, POST /fault, GET /state and GET /metrics.
func (d *Deployment) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /fault", d.serveFault)
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(d.State()) // an error means that the reader has gone
	})
	mux.Handle("GET /metrics", d.scrape())
	mux.Handle("/", d.page())
	return console.RefuseWebPages(mux)
}

func (d *Deployment) serveFault(w http.ResponseWriter, r *http.Request) {
	var f Fault
	if !decode(w, r, &f) {
		return
	}
	if err := d.Inject(context.WithoutCancel(r.Context()), f); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d.o.Logger.Info("fault", "kind", f.Kind, "from", f.From, "to", f.To, "dc", f.DC, "part", f.Part, "addMs", f.AddMs)
	w.WriteHeader(http.StatusNoContent)
}
