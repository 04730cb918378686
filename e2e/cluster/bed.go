//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// envDir names the environment variable with the directory of the cluster.
const envDir = "CAUSALSTORE_CLUSTER"

const controlPlane = "control-plane"

// network is the number of the addresses that a cluster uses, from 0. Clusters that a router joins have different ones.
// The addresses exist only in the network namespaces of the machines; the host's network is not touched.
type network int

// subnet returns the start of the addresses of machines (0), pods (1) or Services (2).
func (n network) subnet(kind int) string { return fmt.Sprintf("10.%d", 89+3*int(n)+kind) }

func (n network) machines() string     { return n.subnet(0) + ".0.0/24" }
func (n network) controlPlane() string { return n.subnet(0) + ".0.1" }
func (n network) router() string       { return n.subnet(0) + ".0.254" }
func (n network) pods() string         { return n.subnet(1) + ".0.0/16" }
func (n network) services() string     { return n.subnet(2) + ".0.0/16" }
func (n network) api() string          { return n.subnet(2) + ".0.1" } // Service kubernetes
func (n network) dns() string          { return n.subnet(2) + ".0.10" }

// defaultZones suit three data centers, each with one zone for coordinators and caches and one for shards.
var defaultZones = []string{"zone-a", "zone-b", "zone-c", "zone-d", "zone-e", "zone-f"}

// node is a machine that runs kubelet.
type node struct {
	Index      int // from 1
	Name, Zone string
	Network    network
}

func (n node) ip() string      { return fmt.Sprintf("%s.0.%d", n.Network.subnet(0), 10+n.Index) }
func (n node) podCIDR() string { return fmt.Sprintf("%s.%d.0/24", n.Network.subnet(1), n.Index) }

// bed is a cluster. Its exported fields are stored in its directory.
type bed struct {
	dir   string
	Nodes []node
	// Network is the number of the cluster's addresses, and Joined that of the clusters that a router joins, 0 without
	// one.
	Network network
	Joined  int
	// Binaries is the directory of the programs.
	Binaries string
	// Port of the API server on the host.
	Port int
	// Modules is set if kernelModules did not exist before Chaos Mesh was installed.
	Modules bool `json:",omitempty"`
	// Inotify is the value of fs.inotify.max_user_instances to restore.
	Inotify string
}

func defaultDir() string {
	if dir := os.Getenv(envDir); dir != "" {
		return dir
	}
	return "/var/cache/causalstore-cluster"
}

// maxNodes is how many nodes have an address; the machine's memory ends earlier.
const maxNodes = 200

// newBed returns a cluster that does not exist yet. node-1 is in the first zone, node-2 in the second, and so on, over
// and over.
func newBed(dir string, zones []string, perZone int) (*bed, error) {
	if perZone < 1 {
		return nil, fmt.Errorf("%d nodes per zone; give at least 1", perZone)
	}
	if count := len(zones) * perZone; count < 1 || count > maxNodes {
		return nil, fmt.Errorf("%d zones with %d nodes each; a cluster has 1 to %d nodes", len(zones),
			perZone, maxNodes)
	}
	b := &bed{dir: dir}
	for i := range len(zones) * perZone {
		zone := zones[i%len(zones)]
		if zone == controlPlane || zone == allNodes || zone == allMachines || strings.HasPrefix(zone, "node-") {
			return nil, fmt.Errorf("a zone cannot be called %s; `cluster cut` uses the name for something else", zone)
		}
		b.Nodes = append(b.Nodes, node{Index: i + 1, Name: fmt.Sprintf("node-%d", i+1), Zone: zone})
	}
	return b, nil
}

// join gives the cluster the addresses of one of several clusters.
func (b *bed) join(n network, clusters int) {
	b.Network, b.Joined = n, clusters
	for i := range b.Nodes {
		b.Nodes[i].Network = n
	}
}

// others returns the networks of the clusters that a router joins with this one.
func (b *bed) others() []network {
	var others []network
	for n := range network(b.Joined) {
		if n != b.Network {
			others = append(others, n)
		}
	}
	return others
}

// openBed reads the cluster that up stored in a directory.
func openBed(dir string) (*bed, error) {
	b := &bed{dir: dir}
	text, err := os.ReadFile(b.file("bed.json"))
	if errors.Is(err, fs.ErrNotExist) {
		if w, err := openWAN(dir); err == nil {
			return nil, fmt.Errorf("%s holds %d clusters; choose one, as in --dir %s", dir, w.Clusters,
				w.file(clusterName(0)))
		}
		return nil, fmt.Errorf("no cluster in %s; create one with `make cluster-up`", dir)
	}
	if err != nil {
		return nil, err
	}
	return b, json.Unmarshal(text, b)
}

func openNode(dir, name string) (*bed, node, error) {
	b, err := openBed(dir)
	if err != nil {
		return nil, node{}, err
	}
	i := slices.IndexFunc(b.Nodes, func(n node) bool { return n.Name == name })
	if i < 0 {
		return nil, node{}, fmt.Errorf("no node %q; nodes are node-1 to node-%d", name, len(b.Nodes))
	}
	return b, b.Nodes[i], nil
}

func (b *bed) save() error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(b.file("bed.json"), text, 0o644)
}

// file returns a path in the cluster's directory.
func (b *bed) file(parts ...string) string {
	return filepath.Join(append([]string{b.dir}, parts...)...)
}

// pki returns the path of a key, certificate or kubeconfig.
func (b *bed) pki(name string) string { return b.file("pki", name) }

// kubeconfig returns the path of an administrator's kubeconfig for use on the host.
func (b *bed) kubeconfig() string { return b.file("kubeconfig") }

// disk returns the host's path of a file on a node's disk, which the node sees in /var/lib.
func (b *bed) disk(n node, parts ...string) string {
	return b.file(append([]string{"nodes", n.Name, "lib"}, parts...)...)
}
