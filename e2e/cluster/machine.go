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

// A machine is a process that is the first in namespaces of its own. What starts in it ends with it.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// startMachine starts the first process of a machine. It may inherit a listener of this machine, as its file 3.
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
	go func() { _ = cmd.Wait() }() // so that it is not a zombie if it ends now
	_, began := stat(pid)
	return os.WriteFile(b.pidFile(name), fmt.Appendf(nil, "%d %s\n", pid, began), 0o644)
}

func (b *bed) pidFile(name string) string { return b.file(name + ".pid") }

// pid of a machine's first process; 0 if it does not run. That it is the process that was started, its start time says.
func (b *bed) pid(name string) int {
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
	if state, began := stat(pid); state == "" || strings.Contains("ZX", state) || began != fields[1] {
		return 0
	}
	return pid
}

// stat returns the state of a process, and when it began in the kernel's own clock.
func stat(pid int) (state, began string) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", ""
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the name before it may hold anything
	if len(fields) < 20 {
		return "", ""
	}
	return string(fields[0]), string(fields[19])
}

// stopMachine ends a machine as a power cut does.
func (b *bed) stopMachine(ctx context.Context, name string) error {
	if pid := b.pid(name); pid != 0 {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end machine %s: %w", name, err)
		}
		err := await(ctx, 30*time.Second, func() error {
			if b.pid(name) != 0 {
				return fmt.Errorf("machine %s still runs", name)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := removeGroups(ctx, b.group()+"/"+name); err != nil {
		return err
	}
	if err := os.Remove(b.pidFile(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// startControlPlane starts its machine. Connections to the listener's port on this machine are passed on to the API server.
func (b *bed) startControlPlane(l *net.TCPListener) error {
	f, err := l.File()
	if err != nil {
		return err
	}
	defer f.Close()
	return b.startMachine(controlPlane, f)
}

// startNode starts the machine of a node and plugs it in.
func (b *bed) startNode(ctx context.Context, n node) error {
	if b.pid(n.Name) != 0 {
		return nil
	}
	if err := removeGroups(ctx, b.group()+"/"+n.Name); err != nil { // after a crash
		return err
	}
	if err := b.makeGroups(n); err != nil {
		return fmt.Errorf("make control groups of %s: %w", n.Name, err)
	}
	if err := b.writeBootID(n); err != nil {
		return err
	}
	if err := b.startMachine(n.Name, nil); err != nil {
		return err
	}
	if err := b.plugIn(ctx, n); err != nil {
		return errors.Join(err, b.stopMachine(ctx, n.Name))
	}
	return nil
}

// writeBootID: a machine that was started anew has booted, and kubelet must see it.
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

// plugIn connects a node to the switch, which is a bridge in the machine of the control plane.
func (b *bed) plugIn(ctx context.Context, n node) error {
	port := "port-" + strconv.Itoa(n.Index)
	at, pid := strconv.Itoa(b.pid(controlPlane)), strconv.Itoa(b.pid(n.Name))
	for _, args := range [][]string{
		{"link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", pid},
		{"link", "set", port, "master", "switch", "up"},
	} {
		if err := run(ctx, "nsenter", append([]string{"--target", at, "--net", "ip"}, args...)...); err != nil {
			return fmt.Errorf("plug in %s: %w\n%s", n.Name, err, tail(b.file("log", n.Name, "machine.log")))
		}
	}
	return nil
}

// run runs a short command, and says what it said if it fails.
func run(ctx context.Context, name string, args ...string) error {
	if said, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(said))
	}
	return nil
}

// tail returns the end of a log.
func tail(log string) []byte {
	const most = 3000
	text, err := os.ReadFile(log)
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(text[max(0, len(text)-most):])
}
