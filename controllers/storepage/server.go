package storepage

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/console"
)

const (
	// Interval is the time between two snapshots of a store, while somebody looks at it.
	Interval = 2 * time.Second
	// Idle is how long after the last request snapshots are still taken: a page that has lost its connection finds its
	// history again.
	Idle = time.Minute
	// MaxStores bounds the stores that are shown at the same time.
	MaxStores = 16
)

// Path is where the page of a store is.
func Path(namespace, name string) string { return "/stores/" + namespace + "/" + name + "/" }

// Options are what a Server reads.
type Options struct {
	// Address is the host:port to listen at. The host must be a loopback address.
	Address string
	Region  string
	// Client reads through the operator's cache, Uncached without it. Namespaces are those that the operator may read;
	// empty: all.
	Client, Uncached client.Reader
	Namespaces       []string
	HTTP             *http.Client
	Now              func() time.Time
}

// Server serves the pages of all stores. It is a Runnable of the manager, with or without the leader's lease.
type Server struct {
	o   Options
	mux *http.ServeMux

	mu    sync.Mutex
	pages map[types.NamespacedName]*console.OnDemand
}

// NewServer returns a server, and an error for an address that other pods reach.
func NewServer(o Options) (*Server, error) {
	if err := CheckAddress(o.Address); err != nil {
		return nil, err
	}
	s := &Server{o: o, mux: http.NewServeMux(), pages: map[types.NamespacedName]*console.OnDemand{}}
	s.mux.HandleFunc("GET /{$}", s.list)
	s.mux.HandleFunc("GET /stores/{namespace}/{name}/", s.page)
	return s, nil
}

// CheckAddress refuses addresses that are not a loopback address with a port.
func CheckAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q: use host:port, such as 127.0.0.1:8082", address)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf(
			"%q: the page has no authentication, so that it is served at a loopback address only: use 127.0.0.1 or "+
				"[::1]; kubectl causal console reaches it through the API server", address)
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	console.RefuseWebPages(s.mux).ServeHTTP(w, r)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica serves the page.
func (s *Server) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (s *Server) Start(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.o.Address)
	if err != nil {
		return fmt.Errorf("serve the live page: %w", err)
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	ended := context.AfterFunc(ctx, func() { _ = server.Close() }) // streams would keep it from a graceful end
	defer ended()
	defer s.close()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the live page: %w", err)
	}
	return nil
}

func (s *Server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.pages {
		p.Close()
		delete(s.pages, name)
	}
}

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	name := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	p, err := s.pageOf(r.Context(), name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	http.StripPrefix(Path(name.Namespace, name.Name)[:len(Path(name.Namespace, name.Name))-1], p).ServeHTTP(w, r)
}

// pageOf returns the page of a store.
func (s *Server) pageOf(ctx context.Context, name types.NamespacedName) (http.Handler, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pages[name]; p != nil {
		return p, nil
	}
	for other, p := range s.pages {
		if !p.IsActive() {
			delete(s.pages, other)
		}
	}
	if len(s.pages) >= MaxStores {
		return nil, fmt.Errorf("%d stores are shown already; close some of their pages, and wait for %s",
			MaxStores, Idle)
	}
	store := &Store{name: name, region: s.o.Region, stores: s.o.Client, uncached: s.o.Uncached,
		namespaces: s.o.Namespaces,
		reader:     &reader{client: s.o.HTTP}, now: s.o.Now}
	if _, err := store.get(ctx); err != nil {
		return errorPage{err}, nil
	}
	p := console.NewOnDemand(store, Interval, Idle)
	s.pages[name] = p
	return p, nil
}

// errorPage answers that there is no such store.
type errorPage struct{ err error }

func (e errorPage) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, e.err.Error(), http.StatusNotFound)
}

var listPage = template.Must(template.New("list").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>CausalStore</title></head>
<body><h1>Stores of region {{.Region}}</h1>
{{if .Stores}}<ul>{{range .Stores}}<li><a href="{{.Path}}">{{.Name}}</a></li>{{end}}</ul>
{{else}}<p>There is none.</p>{{end}}
</body></html>
`))

// list serves links to the pages of all stores.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	var all v1alpha1.CausalStoreList
	if err := s.o.Client.List(r.Context(), &all); err != nil {
		http.Error(w, "list the stores: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	type entry struct{ Path, Name string }
	data := struct {
		Region string
		Stores []entry
	}{Region: s.o.Region}
	for _, store := range all.Items {
		data.Stores = append(data.Stores, entry{Path(store.Namespace, store.Name), store.Namespace + "/" + store.Name})
	}
	slices.SortFunc(data.Stores, func(a, b entry) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	_ = listPage.Execute(w, data) // an error means that the reader has gone
}
