package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Where binaries are looked for, in this order.
const (
	// EnvBinaries names a folder with etcd, and kube-apiserver or hyperkube.
	EnvBinaries = "CAUSALSTORE_KUBE_BINARIES"
	// EnvAssets is what setup-envtest uses, with the same in the folder.
	EnvAssets = "KUBEBUILDER_ASSETS"
	// EnvCache names a folder that may hold kube.tar.xz, with kube/etcd, kube/hyperkube and kube/helm in it. It is unpacked once.
	EnvCache = "CAUSALSTORE_CACHE"
)

// ErrNoBinaries says that tests against an API server cannot run here, and how they could.
var ErrNoBinaries = errors.New("no etcd and kube-apiserver here; `make kubernetes` builds them, or name their folder in " + EnvBinaries)

// binaries are the programs to run.
type binaries struct{ etcd, apiserver string }

// find finds what an API server needs.
func find(ctx context.Context) (binaries, error) {
	dir, source, err := folder(ctx)
	if err != nil {
		return binaries{}, err
	}
	return in(dir, source)
}

// folder looks in each place. A place that is named by a variable and has no binaries is an error: it was meant to.
func folder(ctx context.Context) (dir, source string, err error) {
	for _, env := range []string{EnvBinaries, EnvAssets} {
		if dir := os.Getenv(env); dir != "" {
			return dir, env, nil
		}
	}
	home, err := Home()
	if err != nil {
		return "", "", fmt.Errorf("%w (%w)", ErrNoBinaries, err)
	}
	if archive := filepath.Join(os.Getenv(EnvCache), "kube.tar.xz"); os.Getenv(EnvCache) != "" && exists(archive) {
		if dir, err = unpack(ctx, archive, home); err != nil {
			err = fmt.Errorf("unpack %s: %w", archive, err)
		}
		return dir, EnvCache, err
	}
	if dir = filepath.Join(home, "built"); !exists(dir) {
		return "", "", ErrNoBinaries
	}
	return dir, "make kubernetes", nil
}

// Helm finds the helm program: in PATH, or where the others are.
func Helm(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("helm"); err == nil {
		return path, nil
	}
	dir, _, err := folder(ctx)
	if err != nil && !errors.Is(err, ErrNoBinaries) {
		return "", err
	}
	if path := filepath.Join(dir, "helm"); err == nil && exists(path) {
		return path, nil
	}
	return "", errors.New("no helm here; install it, or run `make kubernetes`")
}

// Home is where binaries are kept between runs; `make kubernetes` leaves them in its folder "built".
func Home() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "causalstore", "kubernetes"), err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// in finds the programs in a folder. hyperkube is one program for all of Kubernetes, which goes by the name it is called by.
func in(dir, source string) (binaries, error) {
	b := binaries{filepath.Join(dir, "etcd"), filepath.Join(dir, "kube-apiserver")}
	if !exists(b.etcd) {
		return b, fmt.Errorf("%s: there is no etcd in %s", source, dir)
	}
	if exists(b.apiserver) {
		return b, nil
	}
	hyperkube := filepath.Join(dir, "hyperkube")
	if !exists(hyperkube) {
		return b, fmt.Errorf("%s: there is neither kube-apiserver nor hyperkube in %s", source, dir)
	}
	b.apiserver = hyperkube
	return b, nil
}

// unpack takes what is needed out of an archive, once for each version of it; several processes may do so at the same time.
func unpack(ctx context.Context, archive, home string) (string, error) {
	info, err := os.Stat(archive)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(home, fmt.Sprintf("tools-%d-%d", info.Size(), info.ModTime().Unix()))
	if exists(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", err
	}
	scratch, err := os.MkdirTemp(home, ".unpacking-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	var said bytes.Buffer
	tar := exec.CommandContext(ctx, "tar", "-xJf", archive, "-C", scratch, "kube/etcd", "kube/hyperkube", "kube/helm")
	tar.Stderr = &said
	if err := tar.Run(); err != nil {
		return "", fmt.Errorf("tar: %w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	if err := os.Rename(filepath.Join(scratch, "kube"), dir); err != nil && !exists(dir) { // unless another process was faster
		return "", err
	}
	return dir, nil
}
