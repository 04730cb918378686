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

// tools are host programs that the nodes use, with the Debian packages that contain them.
var tools = map[string]string{"ip": "iproute2", "nsenter": "util-linux", "mount": "mount", "runc": "runc",
	"iptables": "iptables",
	"nft":      "nftables", "conntrack": "conntrack"}

// controllers are the cgroup v1 controllers that kubelet and runc need.
var controllers = []string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids"}

// bridgeFilterFile is 1 if nftables sees what bridges forward.
const bridgeFilterFile = "/proc/sys/net/bridge/bridge-nf-call-iptables"

const inotifyLimitFile = "/proc/sys/fs/inotify/max_user_instances"

// inotifyPerNode suffices for a node; every kubelet and every containerd uses some for each pod.
const inotifyPerNode = 350

// check returns an error that says why this machine cannot run a cluster.
func check(ctx context.Context) error {
	if err := preflight(ctx); err != nil {
		return err
	}
	_, err := binaries.Find(ctx, binaries.All()...)
	return err
}

// preflight installs missing packages and returns an error that says what else is missing.
func preflight(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("run it as root: nodes need namespaces and mounts")
	}
	missing := missingTools()
	if len(missing) > 0 {
		fmt.Printf("installing %s\n", strings.Join(missing, ", "))
		if err := debian.Install(ctx, missing...); err != nil {
			return err
		}
		if missing = missingTools(); len(missing) > 0 {
			return fmt.Errorf("programs of installed packages are not in PATH: %s", strings.Join(missing, ", "))
		}
	}
	if _, err := findHierarchies(); err != nil {
		return err
	}
	if _, err := os.Stat(bridgeFilterFile); err != nil {
		if err := run(ctx, "modprobe", "br_netfilter"); err != nil {
			return fmt.Errorf(
				"the kernel does not filter what bridges forward (CONFIG_BRIDGE_NETFILTER), which NetworkPolicies "+
					"and cuts need: %w", err)
		}
	}
	return probeMachine(ctx)
}

// probeMachine tries to create what a machine consists of, in namespaces that end with the attempt.
func probeMachine(ctx context.Context) error {
	const try = "mount --make-rprivate / && mount -t proc proc /proc && ip link add name switch type bridge && " +
		"ip link add name port type veth peer name eth0 && nft add table inet machine"
	cmd := exec.CommandContext(ctx, "sh", "-c", try)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf(
			"cannot create namespaces, bridges or packet filters here (as in most containers): %w: %s; "+
				"use a dedicated "+
				"machine, or set KUBECONFIG to use an existing cluster", err, bytes.TrimSpace(output))
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

// findHierarchies returns the mount points of the cgroup v1 controllers.
func findHierarchies() (map[string]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseHierarchies(string(text))
}

func parseHierarchies(mountinfo string) (map[string]string, error) {
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
		return nil,
			fmt.Errorf(
				"these cgroup v1 controllers are not mounted: %s; boot with systemd.unified_cgroup_hierarchy=0, "+
					"or set KUBECONFIG to use an existing cluster", strings.Join(missing, ", "))
	}
	return found, nil
}

// raiseInotifyLimit allows enough watches and stores the previous limit.
func (b *bed) raiseInotifyLimit() error {
	text, err := os.ReadFile(inotifyLimitFile)
	if err != nil {
		return err
	}
	limit, wanted := strings.TrimSpace(string(text)), inotifyPerNode*len(b.Nodes)
	if n, err := strconv.Atoi(limit); err != nil || n >= wanted {
		return err
	}
	b.Inotify = limit
	return errors.Join(b.save(), os.WriteFile(inotifyLimitFile, []byte(strconv.Itoa(wanted)), 0o644))
}
