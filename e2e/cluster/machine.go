//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A machine is the first process in namespaces of its own. Every process that starts in them ends with it.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS |
	syscall.CLONE_NEWIPC

// startMachine starts the first process of a machine. It may inherit a listener of the host as file descriptor 3.
func (b *bed) startMachine(name string, inherit *os.File) error {
	if err := os.MkdirAll(b.file("log", name), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(b.file("log", name, "machine.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(b.file("cluster"), "machine", name, "--dir", b.dir)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	if inherit != nil {
		cmd.ExtraFiles = []*os.File{inherit}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: namespaces}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start machine %s: %w", name, err)
	}
	pid := cmd.Process.Pid
	go func() { _ = cmd.Wait() }() // reap it if it ends early
	_, started := stat(pid)
	return os.WriteFile(b.pidFile(name), fmt.Appendf(nil, "%d %s\n", pid, started), 0o644)
}

func (b *bed) pidFile(name string) string { return b.file(name + ".pid") }

// runningPID returns the PID of a machine's first process, or 0 if it is not running. The start time tells a reused PID
// apart.
func (b *bed) runningPID(name string) int {
	text, err := os.ReadFile(b.pidFile(name))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return 0
	}
	pid, err := strconv.Atoi(fields[0])
	if err != nil {
		return 0
	}
	if state, started := stat(pid); state == "" || strings.Contains("ZX", state) || started != fields[1] {
		return 0
	}
	return pid
}

// stat returns the state of a process and its start time in clock ticks since boot.
func stat(pid int) (state, started string) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", ""
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the name in parentheses may contain anything
	if len(fields) < 20 {
		return "", ""
	}
	return string(fields[0]), string(fields[19])
}

// stopMachine kills a machine, as a power cut would.
func (b *bed) stopMachine(ctx context.Context, name string) error {
	if pid := b.runningPID(name); pid != 0 {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill machine %s: %w", name, err)
		}
		err := await(ctx, 30*time.Second, func() error {
			if b.runningPID(name) != 0 {
				return fmt.Errorf("machine %s is still running", name)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := removeCgroups(ctx, b.cgroup()+"/"+name); err != nil {
		return err
	}
	if err := os.Remove(b.pidFile(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// startControlPlane starts the machine of the control plane, which forwards the listener's connections to the API
// server.
func (b *bed) startControlPlane(l *net.TCPListener) error {
	f, err := l.File()
	if err != nil {
		return err
	}
	defer f.Close()
	return b.startMachine(controlPlane, f)
}

// startNode starts the machine of a node and connects it to the switch.
func (b *bed) startNode(ctx context.Context, n node) error {
	if b.runningPID(n.Name) != 0 {
		return nil
	}
	if err := removeCgroups(ctx, b.cgroup()+"/"+n.Name); err != nil { // after a crash
		return err
	}
	if err := b.createCgroups(n); err != nil {
		return fmt.Errorf("create cgroups of %s: %w", n.Name, err)
	}
	if err := b.writeBootID(n); err != nil {
		return err
	}
	if err := b.startMachine(n.Name, nil); err != nil {
		return err
	}
	if err := b.connect(ctx, n); err != nil {
		return errors.Join(err, b.stopMachine(ctx, n.Name))
	}
	return nil
}

// writeBootID gives a node a new boot ID, so that kubelet notices the reboot.
func (b *bed) writeBootID(n node) error {
	id, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.file("nodes", n.Name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(b.file("nodes", n.Name, "boot-id"), id, 0o644)
}

// connect connects a node to the switch, a bridge in the machine of the control plane.
func (b *bed) connect(ctx context.Context, n node) error {
	port := "port-" + strconv.Itoa(n.Index)
	target, pid := strconv.Itoa(b.runningPID(controlPlane)), strconv.Itoa(b.runningPID(n.Name))
	for _, args := range [][]string{
		{"link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", pid},
		{"link", "set", port, "master", "switch", "up"},
	} {
		if err := run(ctx, "nsenter", append([]string{"--target", target, "--net", "ip"}, args...)...); err != nil {
			return fmt.Errorf("connect %s to the network: %w\n%s", n.Name, err,
				logTail(b.file("log", n.Name, "machine.log")))
		}
	}
	return nil
}

// run runs a short command. The error contains its output.
func run(ctx context.Context, name string, args ...string) error {
	if output, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(output))
	}
	return nil
}

// logTail returns the end of a log.
func logTail(log string) []byte {
	const limit = 3000
	text, err := os.ReadFile(log)
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(text[max(0, len(text)-limit):])
}
