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
)

// envDir names another folder for the cluster.
const envDir = "CAUSALSTORE_CLUSTER"

// Addresses are inside of the machines' own networks; this machine's is not touched.
const (
	controlPlane = "control-plane"
	addressCP    = "10.89.0.1"
	podNetwork   = "10.90.0.0/16"
	services     = "10.91.0.0/16"
	addressAPI   = "10.91.0.1" // of the Service kubernetes
	addressDNS   = "10.91.0.10"
)

// defaultZones: three data centres, each with a zone for coordinators and caches, and one for shards.
var defaultZones = []string{"zone-a", "zone-b", "zone-c", "zone-d", "zone-e", "zone-f"}

// node is a machine with kubelet.
type node struct {
	Index      int // from 1
	Name, Zone string
}

func (n node) address() string { return fmt.Sprintf("10.89.0.%d", 10+n.Index) }
func (n node) pods() string    { return fmt.Sprintf("10.90.%d.0/24", n.Index) }

// bed is a cluster. What is exported is kept in its folder.
type bed struct {
	dir   string
	Nodes []node
	// Binaries is the folder of the programs.
	Binaries string
	// Port of the API server on this machine.
	Port int
	// Inotify is what fs.inotify.max_user_instances was before.
	Inotify string
}

func defaultDir() string {
	if dir := os.Getenv(envDir); dir != "" {
		return dir
	}
	return "/var/cache/causalstore-cluster"
}

func newBed(dir string, zones []string) *bed {
	b := &bed{dir: dir}
	for i, zone := range zones {
		b.Nodes = append(b.Nodes, node{i + 1, fmt.Sprintf("node-%d", i+1), zone})
	}
	return b
}

// openBed reads what up has written.
func openBed(dir string) (*bed, error) {
	b := &bed{dir: dir}
	text, err := os.ReadFile(b.file("bed.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no cluster in %s; make one with `make cluster-up`", dir)
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
		return nil, node{}, fmt.Errorf("there is no node %q; there are node-1 to node-%d", name, len(b.Nodes))
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

// file is a path in the cluster's folder.
func (b *bed) file(parts ...string) string {
	return filepath.Join(append([]string{b.dir}, parts...)...)
}

// pki is a path of a key, a certificate or a kubeconfig.
func (b *bed) pki(name string) string { return b.file("pki", name) }

// kubeconfig is an administrator's, for this machine.
func (b *bed) kubeconfig() string { return b.file("kubeconfig") }

// disk is a path on a node's own disk, which is /var/lib there.
func (b *bed) disk(n node, parts ...string) string {
	return b.file(append([]string{"nodes", n.Name, "lib"}, parts...)...)
}
