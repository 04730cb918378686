//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/e2e/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// newTestBed stores a cluster that does not run.
func newTestBed(t *testing.T) *bed {
	t.Helper()
	b, err := newBed(t.TempDir(), defaultZones, 1)
	if err != nil {
		t.Fatal(err)
	}
	b.Binaries = "/opt/kubernetes"
	if err := b.save(); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAClusterIsOpenedFromItsDirectoryOnly(t *testing.T) {
	b := newTestBed(t)
	again, err := openBed(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(b, again, cmp.AllowUnexported(bed{})); d != "" {
		t.Errorf("(-saved +opened)\n%s", d)
	}
	if _, err := openBed(t.TempDir()); err == nil || !strings.Contains(err.Error(), "make cluster-up") {
		t.Errorf("empty directory: %v", err)
	}
	if _, n, err := openNode(b.dir, "node-3"); err != nil || n.Zone != "zone-c" {
		t.Errorf("node-3 is %+v (%v)", n, err)
	}
	if _, _, err := openNode(b.dir, "node-9"); err == nil || !strings.Contains(err.Error(), "node-1 to node-6") {
		t.Errorf("unknown node: %v", err)
	}
}

func TestClustersInDifferentDirectoriesShareNeitherCgroupsNorPorts(t *testing.T) {
	one, two := newTestBed(t), newTestBed(t)
	if one.cgroup() == two.cgroup() {
		t.Errorf("both have cgroup %s", one.cgroup())
	}
	first, err := one.listenForClients()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := two.listenForClients()
	if err != nil {
		t.Fatal(err)
	}
	if one.Port == two.Port {
		t.Errorf("both listen on port %d", one.Port)
	}
	_ = second.Close()
	again, err := openBed(two.dir)
	if err != nil {
		t.Fatal(err)
	}
	third, err := again.listenForClients()
	if err != nil || again.Port != two.Port {
		t.Fatalf("reopened on port %d (%v), want %d", again.Port, err, two.Port)
	}
	_ = third.Close()
}

func TestNoTwoNodesShareAnAddress(t *testing.T) {
	at := map[string]string{}
	claim := func(owner string, addresses ...string) {
		for _, address := range addresses {
			if other := at[address]; other != "" {
				t.Errorf("%s belongs to %s and %s", address, other, owner)
			}
			at[address] = owner
		}
	}
	for n := range network(maxClusters) {
		b, err := newBed("", []string{"a", "b"}, maxNodes/2)
		if err != nil {
			t.Fatal(err)
		}
		b.join(n, maxClusters)
		claim(fmt.Sprint("cluster ", n), n.machines(), n.pods(), n.services(), n.controlPlane(), n.router(),
			n.api(), n.dns())
		for _, n := range b.Nodes {
			claim(n.Name, n.ip(), n.podCIDR())
		}
	}
}

func TestTheConfigurationFilesOfANodeAreValid(t *testing.T) {
	b := newTestBed(t)
	n := b.Nodes[1]
	if err := os.MkdirAll(b.disk(n), 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := b.renderFiles(n)
	if err != nil {
		t.Fatal(err)
	}
	kubelet := map[string]any{}
	if err := yaml.UnmarshalStrict(files["kubelet.yaml"], &kubelet); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]any{b.Network.dns()}, kubelet["clusterDNS"]); d != "" {
		t.Errorf("name servers of kubelet (-want +got):\n%s", d)
	}
	proxy := map[string]any{}
	if err := yaml.UnmarshalStrict(files["proxy.yaml"], &proxy); err != nil || proxy["hostnameOverride"] != "node-2" {
		t.Errorf("kube-proxy runs as node %v (%v), want node-2", proxy["hostnameOverride"], err)
	}
	network := map[string]any{}
	if err := json.Unmarshal(files["pods.conflist"], &network); err != nil ||
		!strings.Contains(string(files["pods.conflist"]), n.podCIDR()) {
		t.Errorf("pod network: %v (%v)", network, err)
	}
	if text := string(files["containerd.toml"]); !strings.Contains(text, `"/opt/kubernetes/cni"`) ||
		!strings.Contains(text, pauseImage) {
		t.Errorf("containerd.toml:\n%s", text)
	}
}

func TestAProcessIsIdentifiedByItsPIDAndStartTime(t *testing.T) {
	b := newTestBed(t)
	self := os.Getpid()
	_, began := stat(self)
	for text, want := range map[string]int{
		fmt.Sprintf("%d %s\n", self, began): self,
		fmt.Sprintf("%d 1\n", self):         0, // the PID was reused
		"nonsense":                          0,
		"":                                  0,
	} {
		if err := os.WriteFile(b.pidFile("node-1"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := b.runningPID("node-1"); got != want {
			t.Errorf("%q: PID %d, want %d", text, got, want)
		}
	}
	if got := b.runningPID("node-2"); got != 0 {
		t.Errorf("a node that was never started has PID %d", got)
	}
}

const mountsV1 = `30 23 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
31 23 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
32 23 0:28 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory
33 23 0:29 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices
34 23 0:30 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
35 23 0:31 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio
36 23 0:32 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
37 23 0:33 / /sys/fs/cgroup/systemd rw - cgroup systemd rw,xattr,name=systemd
`

func TestCgroupVersionsAreDistinguished(t *testing.T) {
	found, err := parseHierarchies(mountsV1)
	if err != nil {
		t.Fatal(err)
	}
	if found["cpuacct"] != "/sys/fs/cgroup/cpu,cpuacct" || found["memory"] != "/sys/fs/cgroup/memory" ||
		found["name=systemd"] != "/sys/fs/cgroup/systemd" {
		t.Errorf("found %v", found)
	}
	_, err = parseHierarchies("29 23 0:25 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n")
	if err == nil || !strings.Contains(err.Error(), "memory") || !strings.Contains(err.Error(), "KUBECONFIG") {
		t.Errorf("version 2 only: %v", err)
	}
}

func TestCgroupsAreRemovedInnermostFirst(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	if err := os.MkdirAll(filepath.Join(top, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a missing cgroup is no error
		if err := removeCgroup(t.Context(), top); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(top); !os.IsNotExist(err) {
		t.Errorf("not removed: %v", err)
	}
}
