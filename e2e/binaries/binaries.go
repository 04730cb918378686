// Package binaries finds, unpacks or builds the programs of a real Kubernetes: tests against an API server use some of them, the
// test bed all.
package binaries

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Where programs are looked for, in this order; then comes what FindOrBuild has left in the cache.
const (
	// EnvBinaries names a folder with the programs.
	EnvBinaries = "CAUSALSTORE_KUBE_BINARIES"
	// EnvAssets is what setup-envtest uses; its folder has etcd, kube-apiserver and kubectl.
	EnvAssets = "KUBEBUILDER_ASSETS"
	// EnvCache names the folder of the cache, where programs that were built are kept; else it is ~/.cache/causalstore. It may also
	// hold kube.tar.xz, with all programs in its folder kube, which is unpacked once.
	EnvCache = "CAUSALSTORE_CACHE"
)

// ErrNone says that there are no programs here, and how to get them.
var ErrNone = errors.New("no Kubernetes binaries here; `make kubernetes` builds them, or name their folder in " + EnvBinaries)

// kubernetes are the names that hyperkube goes by.
var kubernetes = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"}

// The programs of the test bed that are not in hyperkube. Those of CNI are in a folder of their own.
var others = []string{"etcd", "containerd", "containerd-shim-runc-v2", "ctr", "coredns", "helm",
	"cni/host-local", "cni/bridge", "cni/loopback", "cni/portmap"}

// All are the names of all programs that a cluster needs.
func All() []string { return slices.Concat(kubernetes, others) }

// Folder is a place that has programs.
type Folder struct {
	// Dir has the programs, and CNI's in its folder cni.
	Dir string
	// source says why this folder was chosen.
	source string
}

// Path of the program that goes by a name. Where it is hyperkube, it must be called by the name: Command does so.
func (f Folder) Path(name string) (string, error) {
	path := filepath.Join(f.Dir, name)
	if exists(path) {
		return path, nil
	}
	if hyperkube := filepath.Join(f.Dir, "hyperkube"); exists(hyperkube) && (slices.Contains(kubernetes, name) || f.builtHere(name)) {
		return hyperkube, nil
	}
	return "", fmt.Errorf("%s: there is no %s in %s", f.source, name, f.Dir)
}

// builtHere: the hyperkube that is built here is etcd as well.
func (f Folder) builtHere(name string) bool {
	return name == "etcd" && exists(filepath.Join(f.Dir, built))
}

// Command calls a program by its name.
func (f Folder) Command(name string, args ...string) (*exec.Cmd, error) {
	path, err := f.Path(name)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Args[0] = name
	return cmd, nil
}

// cache is the folder in which programs are kept between runs.
func cache() (string, error) {
	if dir := os.Getenv(EnvCache); dir != "" {
		return dir, nil
	}
	return userCache()
}

func userCache() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "causalstore"), err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
