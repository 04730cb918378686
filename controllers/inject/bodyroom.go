package inject

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Handlers of webhooks read a whole request before they look at it, and the API server shows no certificate: anybody
// in the cluster can send requests. So what their bodies take together is bounded, and what those of one address take.

const (
	// webhookBodyBytes bounds the bodies of all requests that are handled, and webhookBodyBytesOfOne those of an
	// address. A body takes up to twice its size while it is read.
	webhookBodyBytes      = 32 << 20
	webhookBodyBytesOfOne = 8 << 20
	// webhookBody is the largest body: the handlers read as much.
	webhookBody = 7 << 20
	// webhookBodyWait is how long a request waits for others to end.
	webhookBodyWait = 5 * time.Second
)

// bodyRoom is what the bodies of requests take.
type bodyRoom struct {
	mu      sync.Mutex
	used    int64
	usedBy  map[string]int64
	changed chan struct{} // closed when a request has ended
}

func newBodyRoom() *bodyRoom {
	return &bodyRoom{usedBy: map[string]int64{}, changed: make(chan struct{})}
}

// take takes room for a body. If there is none, it returns what is closed when there may be.
func (b *bodyRoom) take(host string, size int64) (changed <-chan struct{}, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+size > webhookBodyBytes || b.usedBy[host]+size > webhookBodyBytesOfOne {
		return b.changed, false
	}
	b.used += size
	b.usedBy[host] += size
	return nil, true
}

func (b *bodyRoom) release(host string, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= size
	if b.usedBy[host] -= size; b.usedBy[host] == 0 {
		delete(b.usedBy, host)
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// limit passes requests on while there is room for their bodies. One that does not say how long it is counts as the
// largest.
func (b *bodyRoom) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := r.ContentLength
		switch {
		case size < 0:
			size = webhookBody
		case size > webhookBody:
			http.Error(w, "the request is too large", http.StatusRequestEntityTooLarge)
			return
		}
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			host = r.RemoteAddr
		}
		late := time.NewTimer(webhookBodyWait)
		defer late.Stop()
		for changed, ok := b.take(host, size); !ok; changed, ok = b.take(host, size) {
			select {
			case <-changed:
			case <-late.C:
				http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
				return
			case <-r.Context().Done():
				return
			}
		}
		defer b.release(host, size)
		r.Body = http.MaxBytesReader(w, r.Body, size)
		next.ServeHTTP(w, r)
	})
}
