package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// built is the name of a file that marks a complete build.
const built = ".built"

const version = "1.36.3" // of Kubernetes, as in kubernetes/go.mod

// module is a subdirectory with its own go.mod, which pins the versions of what is built.
type module struct {
	dir, tags, ldflags string
	// cgo is set if programs lack functions without C code. They do without if there is no C compiler.
	cgo bool
	// programs maps program names to packages.
	programs map[string]string
}

var modules = []module{
	{dir: "kubernetes", programs: map[string]string{"hyperkube": "."}, ldflags: kubernetesVersion()},
	{dir: "containerd", tags: "no_btrfs no_devmapper no_zfs", programs: map[string]string{
		"containerd":              "github.com/containerd/containerd/v2/cmd/containerd",
		"containerd-shim-runc-v2": "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
		"ctr":                     "github.com/containerd/containerd/v2/cmd/ctr"}},
	{dir: "cni", programs: map[string]string{
		"cni/host-local": "github.com/containernetworking/plugins/plugins/ipam/host-local",
		"cni/bridge":     "github.com/containernetworking/plugins/plugins/main/bridge",
		"cni/loopback":   "github.com/containernetworking/plugins/plugins/main/loopback",
		"cni/portmap":    "github.com/containernetworking/plugins/plugins/meta/portmap"}},
	{dir: "coredns", programs: map[string]string{"coredns": "."}},
	{dir: "helm", programs: map[string]string{"helm": "helm.sh/helm/v3/cmd/helm"}},
}

func kubernetesVersion() string {
	const component = "k8s.io/component-base/version"
	major, minor, _ := strings.Cut(version, ".")
	minor, _, _ = strings.Cut(minor, ".")
	return fmt.Sprintf(
		"-X %[1]s.gitVersion=v%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s -X "+
			"k8s.io/client-go/pkg/version.gitVersion=v%[2]s",
		component, version, major, minor)
}

// FindOrBuild is like Find, but builds all programs if there are none, which takes about 30 CPU-minutes.
func FindOrBuild(ctx context.Context, progress io.Writer, names ...string) (Folder, error) {
	f, err := Find(ctx, names...)
	if !errors.Is(err, ErrNone) {
		return f, err
	}
	if err := build(ctx, progress); err != nil {
		return Folder{}, err
	}
	return Find(ctx, names...)
}

// build builds all programs from their Go modules where Find looks for them. It continues an interrupted build.
func build(ctx context.Context, progress io.Writer) error {
	dir, err := buildFolder()
	if err != nil {
		return err
	}
	source, err := sourceFolder()
	if err != nil {
		return err
	}
	for _, m := range modules {
		for name, pkg := range m.programs {
			if err := m.build(ctx, progress, source, filepath.Join(dir, name), pkg); err != nil {
				return fmt.Errorf("build %s: %w", name, err)
			}
		}
	}
	return os.WriteFile(filepath.Join(dir, built), nil, 0o644)
}

func (m *module) build(ctx context.Context, progress io.Writer, source, out, pkg string) error {
	if exists(out) {
		return nil
	}
	started := time.Now()
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	unfinished := out + ".new"
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-tags="+m.tags,
		"-ldflags=-s -w "+m.ldflags, "-o", unfinished, pkg)
	cmd.Dir = filepath.Join(source, m.dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+m.cgoEnabled(), "GOWORK=off", "GOFLAGS=")
	cmd.Stdout, cmd.Stderr = progress, progress
	if err := cmd.Run(); err != nil {
		return err
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	fmt.Fprintf(progress, "built %s in %s (%s of CPU time)\n", filepath.Base(out),
		time.Since(started).Round(time.Second), cpu.Round(time.Second))
	return os.Rename(unfinished, out)
}

// cgoEnabled is the value of CGO_ENABLED. If it is empty, Go decides by whether there is a C compiler.
func (m *module) cgoEnabled() string {
	if m.cgo {
		return ""
	}
	return "0"
}

// buildFolder returns the directory for programs. Its name depends on the pinned versions and on the sources of the
// programs.
func buildFolder() (string, error) {
	home, err := cache()
	if err != nil {
		return "", err
	}
	source, err := sourceFolder()
	if err != nil {
		return "", err
	}
	pins := sha256.New()
	for _, m := range modules {
		for _, file := range []string{"go.mod", "main.go"} {
			b, err := os.ReadFile(filepath.Join(source, m.dir, file))
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // not every module has its own main.go
				return "", err
			}
			pins.Write(b)
		}
	}
	return filepath.Join(home, "kubernetes", "built-"+hex.EncodeToString(pins.Sum(nil)[:6])), nil
}

// sourceFolder returns the directory of this package in the current checkout.
func sourceFolder() (string, error) {
	b, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the source of this module: %w; run it in a checkout", err)
	}
	return filepath.Join(strings.TrimSpace(string(b)), "e2e", "binaries"), nil
}
