package console

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// changing is a Source that counts its snapshots, and whose layout the test changes.
type changing struct {
	source
	takes  atomic.Int64
	layout atomic.Pointer[Layout]
}

func (c *changing) Layout(context.Context) (Layout, error) {
	if l := c.layout.Load(); l != nil {
		return *l, nil
	}
	return Layout{}, fmt.Errorf("no such store: %w", fs.ErrNotExist)
}

func (c *changing) Take(context.Context) Snapshot {
	c.takes.Add(1)
	return c.take()
}

func get(t *testing.T, h http.Handler, path string) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never was so that %s", what)
		}
	}
}

func TestSnapshotsAreTakenOnlyWhileSomebodyLooks(t *testing.T) {
	c := &changing{}
	c.layout.Store(&Layout{Rings: []string{"r"}})
	o := NewOnDemand(c, time.Millisecond, time.Millisecond)
	defer o.Close()
	if n := c.takes.Load(); n != 0 || o.IsActive() {
		t.Fatalf("%d snapshots before anybody looks", n)
	}
	if status := get(t, o, "/console/snapshot"); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	eventually(t, "nobody looks", func() bool { return !o.IsActive() })
	o.mu.Lock()
	ended := o.recorder == nil
	o.mu.Unlock()
	if !ended {
		t.Error("the recorder goes on without a server")
	}

	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		o.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/console/events", nil))
	}()
	before := c.takes.Load()
	eventually(t, "snapshots are taken for a stream", func() bool { return c.takes.Load() > before+5 && o.IsActive() })
	leave()
	<-left
	eventually(t, "nobody looks any more", func() bool { return !o.IsActive() })
}

func TestANewLayoutEndsTheStreamsOfTheOldOne(t *testing.T) {
	c := &changing{}
	o := NewOnDemand(c, time.Millisecond, time.Hour)
	defer o.Close()
	if status := get(t, o, "/"); status != http.StatusNotFound {
		t.Errorf("a deployment that does not exist: status %d", status)
	}
	c.layout.Store(&Layout{Rings: []string{"r"}})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet,
			"/console/events", nil))
	}()
	eventually(t, "a stream is served", func() bool { return c.takes.Load() > 1 })
	c.layout.Store(&Layout{Rings: []string{"r", "s"}})
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the stream goes on")
	}
	w := httptest.NewRecorder()
	o.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console/layout", nil))
	if want := `"rings":["r","s"]`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("the layout is %s; want %s", w.Body, want)
	}
}
