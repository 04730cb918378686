// Package etcdserver runs servers of etcd for tests, each in a process of its own.
package etcdserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/causalstore/causalstore/e2e/binaries"
)

// patience bounds the wait for something that must happen, on a busy machine too.
const patience = time.Minute

// Process is an etcd that a test starts, kills and starts again. It ends with the test, and a test that fails shows its
// log.
type Process struct {
	t       testing.TB
	program binaries.Folder
	args    []string
	log     string
	cmd     *exec.Cmd // nil while it does not run
}

// NewProcess returns an etcd with some flags, which is to be started. If etcd is not installed, it skips the test.
func NewProcess(t testing.TB, flags ...string) *Process {
	t.Helper()
	p := &Process{t: t, program: find(t), args: flags, log: filepath.Join(t.TempDir(), "log")}
	t.Cleanup(func() {
		p.Kill()
		if b, err := os.ReadFile(p.log); t.Failed() && err == nil {
			t.Logf("end of the log of etcd %q:\n%s", p.args, b[max(0, len(b)-2000):])
		}
	})
	return p
}

// find finds etcd, or skips the test.
func find(t testing.TB) binaries.Folder {
	t.Helper()
	f, err := binaries.Find(t.Context(), "etcd")
	if err == nil {
		return f
	}
	if path, missing := exec.LookPath("etcd"); missing == nil {
		return binaries.Folder{Dir: filepath.Dir(path)}
	}
	if errors.Is(err, binaries.ErrNone) {
		t.Skipf(
			"etcd is neither in PATH (Debian: apt-get install etcd-server) nor among the programs of the test bed: %v",
			err)
	}
	t.Fatal(err)
	return f
}

// Start starts the process. It does not wait until it serves.
func (p *Process) Start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	cmd, err := p.program.Command("etcd", p.args...)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.cmd = cmd
}

// Kill ends the process at once, if it runs.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended already
	_ = p.cmd.Wait()         // that it was killed
	p.cmd = nil
}

// Signal stops (SIGSTOP) or continues (SIGCONT) the process. It returns when that has happened to all of its threads.
func (p *Process) Signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); !p.threadsAre(sig == syscall.SIGSTOP); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("etcd has threads that %v has not reached", sig)
		}
	}
}

// threadsAre reports whether all threads are stopped, or none is.
func (p *Process) threadsAre(stopped bool) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	for _, file := range threads {
		b, _ := os.ReadFile(file) // a thread may have ended
		if _, rest, ok := strings.Cut(string(b), ") "); ok && strings.HasPrefix(rest, "T") != stopped {
			return false
		}
	}
	return true
}
