//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/causalstore/causalstore/e2e/binaries"
	"github.com/causalstore/causalstore/e2e/debian"
)

// tools are programs of this machine that the nodes use, and the Debian packages that have them.
var tools = map[string]string{"ip": "iproute2", "nsenter": "util-linux", "mount": "mount", "runc": "runc", "iptables": "iptables",
	"nft": "nftables", "conntrack": "conntrack"}

// controllers of control groups that kubelet and runc need, in version 1.
var controllers = []string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids"}

const inotify = "/proc/sys/fs/inotify/max_user_instances"

// inotifyLeast is enough for six nodes; each kubelet and each containerd take some for every pod.
const inotifyLeast = 2048

// check says why there can be no cluster on this machine, as it is now.
func check(ctx context.Context) error {
	if err := preflight(ctx); err != nil {
		return err
	}
	_, err := binaries.Find(ctx, binaries.All()...)
	return err
}

// preflight says what is missing, after having installed what can be.
func preflight(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("nodes are made of namespaces and mounts: run it as root")
	}
	missing := missingTools()
	if len(missing) > 0 {
		fmt.Printf("installing %s\n", strings.Join(missing, ", "))
		if err := debian.Install(ctx, missing...); err != nil {
			return err
		}
		if missing = missingTools(); len(missing) > 0 {
			return fmt.Errorf("these packages were installed, and their programs are not in PATH: %s", strings.Join(missing, ", "))
		}
	}
	if _, err := hierarchies(); err != nil {
		return err
	}
	return tryMachine(ctx)
}

// tryMachine makes what machines are made of and connected by, in namespaces that end with the attempt.
func tryMachine(ctx context.Context) error {
	const try = "mount --make-rprivate / && mount -t proc proc /proc && ip link add name switch type bridge && " +
		"ip link add name port type veth peer name eth0 && nft add table inet machine"
	cmd := exec.CommandContext(ctx, "sh", "-c", try)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("namespaces, bridges or packet filters cannot be made here, as in most containers: %w: %s; run it on a machine "+
			"of its own, or set KUBECONFIG to use a cluster that there is", err, bytes.TrimSpace(said))
	}
	return nil
}

func missingTools() []string {
	var packages []string
	for program, pkg := range tools {
		if _, err := exec.LookPath(program); err != nil {
			packages = append(packages, pkg)
		}
	}
	slices.Sort(packages)
	return packages
}

// hierarchies returns the folders of this machine where control groups are made, by controller.
func hierarchies() (map[string]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return hierarchiesOf(string(text))
}

func hierarchiesOf(mountinfo string) (map[string]string, error) {
	found := map[string]string{}
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 3 || kind[0] != "cgroup" {
			continue
		}
		for _, option := range strings.Split(kind[2], ",") {
			if slices.Contains(controllers, option) || option == "name=systemd" {
				found[option] = fields[4]
			}
		}
	}
	var missing []string
	for _, c := range controllers {
		if found[c] == "" {
			missing = append(missing, c)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("control groups of version 1 are needed, and these are not mounted: %s; boot with systemd.unified_cgroup_hierarchy=0, "+
			"or set KUBECONFIG to use a cluster that there is", strings.Join(missing, ", "))
	}
	return found, nil
}

// raiseInotify lets there be enough watches, and keeps what was before.
func (b *bed) raiseInotify() error {
	text, err := os.ReadFile(inotify)
	if err != nil {
		return err
	}
	is := strings.TrimSpace(string(text))
	if n, err := strconv.Atoi(is); err != nil || n >= inotifyLeast {
		return err
	}
	b.Inotify = is
	return errors.Join(b.save(), os.WriteFile(inotify, []byte(strconv.Itoa(inotifyLeast)), 0o644))
}
