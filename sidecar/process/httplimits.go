package process

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/causalstore/causalstore/sidecar/connlimit"
)

// Anybody may reach the HTTP port, so that everything there is small and short. Those who take most connections make
// place for others, so that the probes of the kubelet are answered whoever else connects.
type httpBounds struct {
	connections int
	idle        time.Duration // longer than Prometheus waits between two scrapes, mostly
	read        time.Duration // for a request
	write       time.Duration // for an answer; a profile may take longer by what it is asked to measure
}

var defaultHTTPBounds = httpBounds{
	connections: 128, idle: 90 * time.Second, read: 5 * time.Second, write: 30 * time.Second,
}

const (
	httpHeaderBytes = 8 << 10
	// maxScrapes bounds the requests for metrics at a time: each has all of them in memory.
	maxScrapes = 8
)

// server returns a server with these bounds, and what wraps its listener.
func (b httpBounds) server(handler http.Handler, log *slog.Logger) (*http.Server, func(net.Listener) net.Listener) {
	lines := rate.Sometimes{Interval: time.Minute}
	connections := connlimit.NewCounter(b.connections, func(address net.Addr) {
		lines.Do(func() {
			log.Warn(
				"too many connections to the HTTP port: the oldest one of the address with most of them was closed",
				"address", address, "limit", b.connections)
		})
	})
	server := &http.Server{Handler: withoutBody(handler), ReadHeaderTimeout: b.read, ReadTimeout: b.read,
		WriteTimeout: b.write, IdleTimeout: b.idle, MaxHeaderBytes: httpHeaderBytes}
	return server, connections.Count
}

var errBody = errors.New("requests to this port have no body")

// withoutBody refuses requests that have a body, and reads none of it.
func withoutBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
			http.Error(w, errBody.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		next.ServeHTTP(w, r)
	})
}
