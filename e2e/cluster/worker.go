//go:build linux

package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"text/template"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/causalstore/causalstore/e2e/binaries"
	"github.com/causalstore/causalstore/e2e/cluster/policy"
)

//go:embed node.tmpl
var nodeTemplates string

// runNode runs containerd, kubelet, kube-proxy and the enforcer of NetworkPolicies.
func (b *bed) runNode(ctx context.Context, n node) error {
	_ = os.Unsetenv(envJoined) // the name is valid
	if err := syscall.Sethostname([]byte(n.Name)); err != nil {
		return err
	}
	if err := b.mountNode(n); err != nil {
		return err
	}
	if err := b.configureNetwork(ctx, n); err != nil {
		return err
	}
	if err := b.configure(n); err != nil {
		return err
	}
	s := newSupervisor(b.file("log", n.Name))
	go s.keepRunning("policies", b.file("cluster"), nil, "enforce-policies", n.Name, "--dir", b.dir)
	env := []string{"PATH=" + b.Binaries + ":" + os.Getenv("PATH"), // containerd finds its shim there
		"GOGC=75"} // saves memory: there are six of each program
	keep := func(name string, args ...string) error {
		path, err := binaries.Folder{Dir: b.Binaries}.Path(name)
		if err == nil {
			go s.keepRunning(name, path, env, args...)
		}
		return err
	}
	go s.reap()
	if err := keep("containerd", "--config", b.file("nodes", n.Name, "containerd.toml")); err != nil {
		return err
	}
	if err := await(ctx, startTimeout, func() error { _, err := os.Stat(containerdSocket); return err }); err != nil {
		return fmt.Errorf("wait for containerd: %w", err)
	}
	if err := keep("kubelet", "--config="+b.file("nodes", n.Name, "kubelet.yaml"),
		"--kubeconfig="+b.pki(n.Name+".kubeconfig"),
		"--hostname-override="+n.Name, "--node-ip="+n.ip(),
		"--node-labels=topology.kubernetes.io/region=local,topology.kubernetes.io/zone="+n.Zone); err != nil {
		return err
	}
	if err := keep("kube-proxy", "--config="+b.file("nodes", n.Name, "proxy.yaml")); err != nil {
		return err
	}
	select {} // until the machine is killed
}

const containerdSocket = "/run/containerd/containerd.sock"

// configure writes the configuration files of a node.
func (b *bed) configure(n node) error {
	files, err := b.renderFiles(n)
	if err != nil {
		return err
	}
	for name, text := range files {
		file := b.file("nodes", n.Name, name)
		if name == "pods.conflist" {
			file = "/var/lib/cni/net.d/pods.conflist"
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// renderFiles renders the templates of node.tmpl; the result is keyed by template name.
func (b *bed) renderFiles(n node) (map[string][]byte, error) {
	all, err := template.New("").Option("missingkey=error").Parse(nodeTemplates)
	if err != nil {
		return nil, err
	}
	reserved, err := reservedMemory(len(b.Nodes))
	if err != nil {
		return nil, err
	}
	values := map[string]any{"CNI": filepath.Join(b.Binaries, "cni"), "Pause": pauseImage, "Pods": n.podCIDR(),
		"Network": b.Network.pods(), "Name": n.Name,
		"CA": b.pki("ca.crt"), "DNS": b.Network.dns(), "Proxy": b.pki("proxy.kubeconfig"),
		"Resolv":      b.file("nodes", n.Name, "resolv.conf"),
		"Snapshotter": chooseSnapshotter(b.disk(n)), "Reserved": reserved}
	files := map[string][]byte{}
	for _, name := range []string{"containerd.toml", "kubelet.yaml", "proxy.yaml", "resolv.conf", "pods.conflist"} {
		var text bytes.Buffer
		if err := all.ExecuteTemplate(&text, name, values); err != nil {
			return nil, err
		}
		files[name] = text.Bytes()
	}
	return files, nil
}

// reservedMemory returns the memory that a node does not offer to pods, because all nodes share the host's memory.
func reservedMemory(nodes int) (string, error) {
	var i syscall.Sysinfo_t
	if err := syscall.Sysinfo(&i); err != nil {
		return "", err
	}
	total := i.Totalram * uint64(i.Unit) >> 20
	return fmt.Sprintf("%dMi", total-total/uint64(nodes)), nil
}

// chooseSnapshotter avoids overlayfs where the directory is on an overlay itself, as in a container.
func chooseSnapshotter(dir string) string {
	const overlay = 0x794c7630
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err == nil && s.Type == overlay {
		return "native"
	}
	return "overlayfs"
}

// enforcePolicies enforces the NetworkPolicies of pods on a node, whose network this process shares.
func enforcePolicies(ctx context.Context, dir, name string) error {
	b, n, err := openNode(dir, name)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", b.pki("admin.kubeconfig"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return policy.Enforce(ctx, client, n.Name)
}
