package etcdserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/lab/ports"
)

// Server is a server of a cluster that needs no certificates among its servers, with its data. The tests do not outlive
// the machine: nothing is synced to the disk.
type Server struct {
	*Process
	// Name is that of the server in its cluster.
	Name string
	// Endpoint is the host:port that serves clients.
	Endpoint string
	data     string
}

// New returns the servers of a cluster, which are to be started. With flags for TLS, they serve https.
func New(t testing.TB, servers int, flags ...string) []*Server {
	t.Helper()
	scheme := "http"
	if len(flags) > 0 {
		scheme = "https"
	}
	var all []*Server
	var peers []string
	for i := range servers {
		s := &Server{Name: fmt.Sprintf("s%d", i), Endpoint: ports.ForTest(t), data: filepath.Join(t.TempDir(), "data")}
		client, peer := scheme+"://"+s.Endpoint, "http://"+ports.ForTest(t)
		s.Process = NewProcess(t, append([]string{"--name", s.Name, "--data-dir", s.data, "--listen-client-urls",
			client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--log-level", "warn",
			"--unsafe-no-fsync"}, flags...)...)
		peers = append(peers, s.Name+"="+peer)
		all = append(all, s)
	}
	for _, s := range all {
		s.args = append(s.args, "--initial-cluster", strings.Join(peers, ","))
	}
	return all
}

// Start starts a cluster with one server. It does not wait until it serves.
func Start(t testing.TB, flags ...string) *Server {
	t.Helper()
	s := New(t, 1, flags...)[0]
	s.Start()
	return s
}

// Empty removes the data of the server, which does not run.
func (s *Server) Empty() {
	s.t.Helper()
	if err := os.RemoveAll(s.data); err != nil {
		s.t.Fatal(err)
	}
}

// Save copies the data of the server, which does not run, and returns a function that brings it back.
func (s *Server) Save() (restore func()) {
	s.t.Helper()
	backup := filepath.Join(s.t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(s.data)); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		s.t.Helper()
		s.Empty()
		if err := os.Rename(backup, s.data); err != nil {
			s.t.Fatal(err)
		}
	}
}
