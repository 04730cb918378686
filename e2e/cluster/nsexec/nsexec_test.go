//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// program builds nsexec.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nsexec")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// elsewhere starts a process in namespaces of its own, and returns the directory that names them.
func elsewhere(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC |
		syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Skipf("namespaces cannot be created here: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return fmt.Sprintf("/proc/%d/ns/", cmd.Process.Pid)
}

func TestACommandRunsInTheNamedNamespacesAndNoOthers(t *testing.T) {
	nsexec, other := program(t), elsewhere(t)
	names := func(dir string, of ...string) (all []string) {
		for _, name := range of {
			target, err := os.Readlink(dir + name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, target)
		}
		return all
	}
	for _, test := range []struct {
		args []string
		want []string
	}{
		{nil, names("/proc/self/ns/", "net", "pid", "ipc", "mnt")},
		{[]string{"-n", other + "net"}, append(names(other, "net"), names("/proc/self/ns/", "pid", "ipc", "mnt")...)},
		{[]string{"-l", "-p", other + "pid", "-n", other + "net"},
			append(names(other, "net", "pid"), names("/proc/self/ns/", "ipc", "mnt")...)},
		{[]string{"-m", other + "mnt", "-n", other + "net", "-i", other + "ipc", "-p", other + "pid"},
			names(other, "net", "pid", "ipc", "mnt")},
	} {
		args := append(test.args, "--", "readlink", "/proc/thread-self/ns/net", "/proc/thread-self/ns/pid",
			"/proc/thread-self/ns/ipc", "/proc/thread-self/ns/mnt")
		out, err := exec.Command(nsexec, args...).CombinedOutput()
		if got := strings.Fields(string(out)); err != nil || strings.Join(got, " ") != strings.Join(test.want, " ") {
			t.Errorf("nsexec %q prints %q (%v), want %q", args, got, err, test.want)
		}
	}
}

func TestTheExitCodeIsThatOfTheCommand(t *testing.T) {
	nsexec := program(t)
	for _, test := range []struct {
		want int
		args []string
	}{
		{0, []string{"--", "true"}},
		{7, []string{"--", "sh", "-c", "exit 7"}},
		{128 + 9, []string{"--", "sh", "-c", "kill -9 $$"}},
		{exitCommand, []string{"--", "no-such-command"}},
		{exitNamespace, []string{"-n", "/no/such/file", "--", "true"}},
		{exitUsage, nil},
		{exitUsage, []string{"-u", "x", "--", "true"}},
		{exitUsage, []string{"-l", "-m", "/proc/self/ns/mnt", "--", "true"}},
	} {
		err := exec.Command(nsexec, test.args...).Run()
		got := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			got = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if got != test.want {
			t.Errorf("nsexec %q ends with %d, want %d", test.args, got, test.want)
		}
	}
}

// startShell starts a shell under nsexec that prints "ready", and returns when it has.
func startShell(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program(t), "--", "sh", "-c", script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("ready\n"))
	if _, err := out.Read(line); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestSignalsReachTheCommand(t *testing.T) {
	cmd := startShell(t, "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("it ends with %v, want 3", err)
	}
}

func TestTheCommandEndsWithNsexec(t *testing.T) {
	alive, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program(t), "--", "sh", "-c", "echo ready; exec sleep 600")
	cmd.Stdout = hold // open for as long as the command lives
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = hold.Close()
	line := make([]byte, len("ready\n"))
	if _, err := alive.Read(line); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(cmd.Process.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if n, err := alive.Read(line); err == nil {
		t.Errorf("read %d bytes, want the end of the output", n)
	}
}
