//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// envJoined is set when this process has joined its cgroups and its cgroup namespace is rooted there.
const envJoined = "CAUSALSTORE_CLUSTER_JOINED"

// runMachine is the first process of a machine. It returns only with an error.
func runMachine(dir, name string) error {
	if name == router {
		w, err := openWAN(dir)
		if err != nil {
			return err
		}
		return w.runRouter(context.Background())
	}
	b, err := openBed(dir)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if name == controlPlane {
		return b.runControlPlane(ctx)
	}
	_, n, err := openNode(dir, name)
	if err != nil {
		return err
	}
	if os.Getenv(envJoined) == "" {
		return b.joinAndReexec(n)
	}
	return b.runNode(ctx, n)
}

// joinAndReexec joins the node's cgroups and creates a cgroup namespace that is rooted there. Only the calling thread
// enters it, so the program is then executed again.
func (b *bed) joinAndReexec(n node) error {
	if err := b.joinCgroups(n); err != nil {
		return fmt.Errorf("join cgroups: %w", err)
	}
	if err := syscall.Unshare(syscall.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("unshare the cgroup namespace: %w", err)
	}
	return syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), envJoined+"=1"))
}

// mounts collects the errors of a list of mounts.
type mounts struct{ errs []error }

func (m *mounts) mount(source, target, kind string, flags uintptr, options string) {
	if err := syscall.Mount(source, target, kind, flags, options); err != nil {
		m.errs = append(m.errs, fmt.Errorf("mount %s: %w", target, err))
	}
}

func (m *mounts) dir(path string) { m.errs = append(m.errs, os.MkdirAll(path, 0o755)) }

func (m *mounts) bind(source, target string) { m.mount(source, target, "", syscall.MS_BIND, "") }

func (m *mounts) err() error { return errors.Join(m.errs...) }

// private stops mounts from propagating between this machine and the host.
func (m *mounts) private() {
	m.mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	m.mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
}

// mountNode mounts a node's own disk at the usual places.
func (b *bed) mountNode(n node) error {
	m := &mounts{}
	m.private()
	log := b.file("nodes", n.Name, "log")
	for _, dir := range []string{b.disk(n, "kubelet"), b.disk(n, "containerd"), b.disk(n, "cni", "net.d"),
		b.disk(n, "volumes"), log} {
		m.dir(dir)
	}
	m.bind(log, "/var/log")
	m.bind(b.disk(n), "/var/lib")
	m.bind(b.file("nodes", n.Name, "boot-id"), "/proc/sys/kernel/random/boot_id")
	m.mount("tmpfs", "/run", "tmpfs", 0, "mode=755,size=256m")
	m.dir("/run/netns")
	m.dir("/run/lock")
	m.mount("sysfs", "/sys", "sysfs", 0, "")
	if err := m.err(); err != nil {
		return err
	}
	return errors.Join(b.mountCgroups(), b.maskSysctls(n),
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""))
}

func (b *bed) mountCgroups() error {
	m := &mounts{}
	const root = "/sys/fs/cgroup"
	m.mount("tmpfs", root, "tmpfs", 0, "mode=755,size=1m")
	for _, c := range append([]string{"systemd"}, controllers...) {
		dir, options := filepath.Join(root, c), c
		if c == "systemd" {
			options = "none,name=systemd"
		}
		m.dir(dir)
		m.mount("cgroup", dir, "cgroup", 0, options)
	}
	return m.err()
}

// maskSysctls mounts files over host-wide sysctls that kubelet would set, with the values that it wants to find.
func (b *bed) maskSysctls(n node) error {
	m := &mounts{}
	dir := b.file("nodes", n.Name, "sysctl")
	m.dir(dir)
	for name, value := range map[string]string{"vm/overcommit_memory": "1", "vm/panic_on_oom": "0",
		"kernel/panic":         "10",
		"kernel/panic_on_oops": "1", "kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000"} {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "."))
		m.errs = append(m.errs, os.WriteFile(file, []byte(value+"\n"), 0o644))
		m.bind(file, "/proc/sys/"+name)
	}
	return m.err()
}

// configureNetwork sets a node's address and its routes to the pods of other nodes.
func (b *bed) configureNetwork(ctx context.Context, n node) error {
	err := await(ctx, 30*time.Second, func() error {
		_, err := os.Stat("/sys/class/net/eth0")
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for the network interface: %w", err)
	}
	commands := [][]string{{"link", "set", "lo", "up"}, {"addr", "add", n.ip() + "/24", "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		{"route", "add", "default", "via", b.Network.controlPlane()}}
	for _, other := range b.Nodes {
		if other.Index != n.Index {
			commands = append(commands, []string{"route", "add", other.podCIDR(), "via", other.ip()})
		}
	}
	for _, other := range b.others() {
		commands = append(commands, []string{"route", "add", other.machines(), "via", b.Network.router()})
	}
	return errors.Join(runIP(ctx, commands), enableForwarding(), b.hidePods(ctx))
}

func runIP(ctx context.Context, commands [][]string) error {
	for _, args := range commands {
		if err := run(ctx, "ip", args...); err != nil {
			return err
		}
	}
	return nil
}

// enableForwarding makes this machine forward packets, and show those that its bridge forwards to the rules for IP.
func enableForwarding() error {
	return errors.Join(os.WriteFile(bridgeFilterFile, []byte("1"), 0),
		os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0),
		os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("0"), 0))
}
