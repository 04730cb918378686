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

	"github.com/causalstore/causalstore/e2e/binaries"
)

//go:embed node.tmpl
var nodeTemplates string

// beNode: containerd, kubelet and kube-proxy.
func (b *bed) beNode(ctx context.Context, n node) error {
	_ = os.Unsetenv(envJoined) // it has a valid name
	if err := syscall.Sethostname([]byte(n.Name)); err != nil {
		return err
	}
	if err := b.mountNode(n); err != nil {
		return err
	}
	if err := b.network(ctx, n); err != nil {
		return err
	}
	if err := b.configure(n); err != nil {
		return err
	}
	s := newSupervisor(b.file("log", n.Name))
	env := []string{"PATH=" + b.Binaries + ":" + os.Getenv("PATH"), // the right shim is to be found
		"GOGC=75"} // less memory: there are six of everything
	keep := func(name string, args ...string) error {
		path, err := binaries.Folder{Dir: b.Binaries}.Path(name)
		if err == nil {
			go s.keep(name, path, env, args...)
		}
		return err
	}
	go s.bury()
	if err := keep("containerd", "--config", b.file("nodes", n.Name, "containerd.toml")); err != nil {
		return err
	}
	if err := await(ctx, startTimeout, func() error { _, err := os.Stat(containerdSocket); return err }); err != nil {
		return fmt.Errorf("wait for containerd: %w", err)
	}
	if err := keep("kubelet", "--config="+b.file("nodes", n.Name, "kubelet.yaml"), "--kubeconfig="+b.pki(n.Name+".kubeconfig"),
		"--hostname-override="+n.Name, "--node-ip="+n.address(),
		"--node-labels=topology.kubernetes.io/region=local,topology.kubernetes.io/zone="+n.Zone); err != nil {
		return err
	}
	if err := keep("kube-proxy", "--config="+b.file("nodes", n.Name, "proxy.yaml")); err != nil {
		return err
	}
	select {} // it ends with the machine
}

const containerdSocket = "/run/containerd/containerd.sock"

// configure writes the files of node.tmpl.
func (b *bed) configure(n node) error {
	files, err := b.files(n)
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

// files of node.tmpl, by their names in it.
func (b *bed) files(n node) (map[string][]byte, error) {
	all, err := template.New("").Option("missingkey=error").Parse(nodeTemplates)
	if err != nil {
		return nil, err
	}
	reserved, err := reservedMemory(len(b.Nodes))
	if err != nil {
		return nil, err
	}
	values := map[string]any{"CNI": filepath.Join(b.Binaries, "cni"), "Pause": pauseImage, "Pods": n.pods(), "Network": podNetwork, "Name": n.Name,
		"CA": b.pki("ca.crt"), "DNS": addressDNS, "Proxy": b.pki("proxy.kubeconfig"), "Resolv": b.file("nodes", n.Name, "resolv.conf"),
		"Snapshotter": snapshotter(b.disk(n)), "Reserved": reserved}
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

// reservedMemory is what each node does not give to pods: the memory of this machine is shared by all.
func reservedMemory(nodes int) (string, error) {
	var i syscall.Sysinfo_t
	if err := syscall.Sysinfo(&i); err != nil {
		return "", err
	}
	total := uint64(i.Totalram) * uint64(i.Unit) >> 20
	return fmt.Sprintf("%dMi", total-total/uint64(nodes)), nil
}

// snapshotter: an overlay cannot have its upper folder on another overlay, as in a container.
func snapshotter(dir string) string {
	const overlay = 0x794c7630
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err == nil && s.Type == overlay {
		return "native"
	}
	return "overlayfs"
}
