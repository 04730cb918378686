package console

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"reflect"
	"sync"
	"time"
)

// Source is a deployment that an OnDemand shows.
type Source interface {
	// Layout returns what does not change while the page is shown. An error ends what is shown; an error that is
	// fs.ErrNotExist says that there is no such deployment.
	Layout(ctx context.Context) (Layout, error)
	// Take returns the present state.
	Take(ctx context.Context) Snapshot
}

// takeTimeout bounds the making of one snapshot.
const takeTimeout = 10 * time.Second

// OnDemand serves the page of a deployment whose snapshots cost something: it takes them only while somebody looks.
// When the layout changes it begins again with an empty history, and the pages that are open load the new one.
type OnDemand struct {
	source         Source
	interval, idle time.Duration

	mu       sync.Mutex
	server   *Server   // nil while nobody looks
	recorder *Recorder // of the server
	begun    uint64    // counts the servers
	users    int       // requests that are being served
	timer    *time.Timer
}

// NewOnDemand returns a handler that takes a snapshot each interval, until there has been no request for the time idle.
func NewOnDemand(source Source, interval, idle time.Duration) *OnDemand {
	return &OnDemand{source: source, interval: interval, idle: idle}
}

// ServeHTTP implements http.Handler.
func (o *OnDemand) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, err := o.acquire(r.Context())
	if err != nil {
		status := http.StatusServiceUnavailable
		if errors.Is(err, fs.ErrNotExist) {
			status = http.StatusNotFound
		}
		http.Error(w, err.Error(), status)
		return
	}
	defer o.release()
	s.ServeHTTP(w, r)
}

// acquire returns the server, and starts it if there is none.
func (o *OnDemand) acquire(ctx context.Context) (*Server, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.server == nil {
		layout, err := o.source.Layout(ctx)
		if err != nil {
			return nil, err
		}
		o.begun++
		o.recorder = NewRecorder(o.interval, o.take(o.begun, layout))
		o.server = NewServer(layout, o.recorder)
	}
	o.users++
	if o.timer != nil {
		o.timer.Stop()
	}
	return o.server, nil
}

// take returns what takes snapshots for one of the servers. It ends that server when its layout no longer holds.
func (o *OnDemand) take(begun uint64, shown Layout) func() Snapshot {
	return func() Snapshot {
		ctx, cancel := context.WithTimeout(context.Background(), takeTimeout)
		defer cancel()
		if now, err := o.source.Layout(ctx); err != nil || !reflect.DeepEqual(now, shown) {
			go o.end(func() bool { return o.begun == begun })
		}
		return o.source.Take(ctx)
	}
}

func (o *OnDemand) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users--; o.users == 0 {
		o.timer = time.AfterFunc(o.idle, func() { o.end(func() bool { return o.users == 0 }) })
	}
}

// end stops the present server if a condition holds.
func (o *OnDemand) end(condition func() bool) {
	o.mu.Lock()
	var r *Recorder
	if o.server != nil && condition() {
		r, o.server, o.recorder = o.recorder, nil, nil
	}
	o.mu.Unlock()
	if r != nil {
		r.Close()
	}
}

// IsActive reports whether snapshots are being taken.
func (o *OnDemand) IsActive() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.server != nil
}

// Close ends what is shown.
func (o *OnDemand) Close() { o.end(func() bool { return true }) }
