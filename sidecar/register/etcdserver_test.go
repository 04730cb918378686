package register

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/causalstore/causalstore/e2e/binaries"
)

// etcdServer is a server of etcd, in a process of its own.
type etcdServer struct {
	t        *testing.T
	program  binaries.Folder
	name     string
	dir      string // data and log
	args     []string
	endpoint string // host:port
	cmd      *exec.Cmd
}

// etcdProgram finds etcd, or skips the test.
func etcdProgram(t *testing.T) binaries.Folder {
	t.Helper()
	f, err := binaries.Find(t.Context(), "etcd")
	if err == nil {
		return f
	}
	if path, missing := exec.LookPath("etcd"); missing == nil {
		return binaries.Folder{Dir: filepath.Dir(path)}
	}
	if errors.Is(err, binaries.ErrNone) {
		t.Skipf("etcd is neither in PATH (Debian: apt-get install etcd-server) nor among the programs of the test bed: %v", err)
	}
	t.Fatal(err)
	return f
}

// freeAddress returns an address at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// newEtcd returns the servers of a cluster, which are to be started. With flags for TLS, they serve https.
func newEtcd(t *testing.T, servers int, flags ...string) []*etcdServer {
	t.Helper()
	program, scheme := etcdProgram(t), "http"
	if len(flags) > 0 {
		scheme = "https"
	}
	var all []*etcdServer
	var peers []string
	for i := range servers {
		s := &etcdServer{t: t, program: program, name: fmt.Sprintf("s%d", i), dir: t.TempDir(), endpoint: freeAddress(t)}
		peer := "http://" + freeAddress(t)
		peers = append(peers, s.name+"="+peer)
		client := scheme + "://" + s.endpoint
		s.args = append([]string{"--name", s.name, "--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--log-level", "warn", "--unsafe-no-fsync"}, flags...)
		all = append(all, s)
	}
	for _, s := range all {
		s.args = append(s.args, "--initial-cluster", strings.Join(peers, ","))
		t.Cleanup(s.kill)
	}
	return all
}

// startEtcd starts a cluster with one server.
func startEtcd(t *testing.T, flags ...string) *etcdServer {
	t.Helper()
	s := newEtcd(t, 1, flags...)[0]
	s.start()
	return s
}

// start starts the server. It does not wait.
func (s *etcdServer) start() {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	if s.cmd, err = s.program.Command("etcd", append(s.args, "--data-dir", filepath.Join(s.dir, "data"))...); err != nil {
		s.t.Fatal(err)
	}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// kill ends the server at once.
func (s *etcdServer) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // that it was killed
	s.cmd = nil
	if s.t.Failed() {
		b, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		s.t.Logf("etcd %s: %s", s.name, b[max(0, len(b)-2000):])
	}
}

// signal stops or continues the server. It returns when that has happened to all of its threads.
func (s *etcdServer) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
	wait(s.t, "all threads of the server have received the signal", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
		for _, file := range threads {
			b, _ := os.ReadFile(file) // a thread may have ended
			if _, rest, ok := strings.Cut(string(b), ") "); ok && strings.HasPrefix(rest, "T") != (sig == syscall.SIGSTOP) {
				return false
			}
		}
		return true
	})
}

// empty removes the data of the server, which does not run.
func (s *etcdServer) empty() {
	s.t.Helper()
	if err := os.RemoveAll(filepath.Join(s.dir, "data")); err != nil {
		s.t.Fatal(err)
	}
}

// save copies the data of the server, which does not run, and returns a function that brings it back.
func (s *etcdServer) save() (restore func()) {
	s.t.Helper()
	data, backup := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "backup")
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		s.t.Helper()
		s.empty()
		if err := os.Rename(backup, data); err != nil {
			s.t.Fatal(err)
		}
	}
}
