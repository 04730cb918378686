// Package binaries finds, unpacks or builds the programs of a real Kubernetes. Tests against an API server need some of
// them, the test bed all.
package binaries

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Places to look for programs, in this order. The last one is what FindOrBuild left in the cache.
const (
	// EnvBinaries names a directory with the programs.
	EnvBinaries = "CAUSALSTORE_KUBE_BINARIES"
	// EnvAssets is the variable of setup-envtest; its directory has etcd, kube-apiserver and kubectl.
	EnvAssets = "KUBEBUILDER_ASSETS"
	// EnvCache names the directory that keeps built programs (default: ~/.cache/causalstore). It may also contain
	// kube.tar.xz, an archive with all programs in its directory kube, which is unpacked once.
	EnvCache = "CAUSALSTORE_CACHE"
)

// ErrNone is returned if no programs are installed.
var ErrNone = errors.New(
	"no Kubernetes binaries found; build them with `make kubernetes`, or name their directory in " + EnvBinaries)

// kubernetes are the programs that hyperkube contains.
var kubernetes = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy",
	"kubelet", "kubectl"}

// others are the programs of the test bed that are not in hyperkube. CNI plugins are in a subdirectory.
var others = []string{"etcd", "containerd", "containerd-shim-runc-v2", "ctr", "coredns", "helm",
	"cni/host-local", "cni/bridge", "cni/loopback", "cni/portmap"}

// All returns the names of the programs that a cluster needs.
func All() []string { return slices.Concat(kubernetes, others) }

// Folder is a directory with programs.
type Folder struct {
	// Dir contains the programs, and CNI plugins in its subdirectory cni.
	Dir string
	// source says why this directory was chosen.
	source string
}

// Path returns the path of a program. If that is hyperkube, its first argument must be the program's name, as Command
// sets it.
func (f Folder) Path(name string) (string, error) {
	path := filepath.Join(f.Dir, name)
	if exists(path) {
		return path, nil
	}
	if hyperkube := filepath.Join(f.Dir, "hyperkube"); exists(hyperkube) &&
		(slices.Contains(kubernetes, name) || f.hyperkubeIsEtcd(name)) {
		return hyperkube, nil
	}
	return "", fmt.Errorf("%s: no %s in %s", f.source, name, f.Dir)
}

// hyperkubeIsEtcd reports whether hyperkube contains the program etcd: the one that this package builds does.
func (f Folder) hyperkubeIsEtcd(name string) bool {
	return name == "etcd" && exists(filepath.Join(f.Dir, built))
}

// Command returns a command that calls a program by its name.
func (f Folder) Command(name string, args ...string) (*exec.Cmd, error) {
	path, err := f.Path(name)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Args[0] = name
	return cmd, nil
}

// cache returns the directory that keeps programs between runs.
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
