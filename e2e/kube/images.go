package kube

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The images to use. The nodes of a cluster given by KUBECONFIG must be able to pull them.
var (
	ImageStore = setting("CAUSALSTORE_E2E_IMAGE", "causalstore:dev")
	ImageNext  = setting("CAUSALSTORE_E2E_NEXT", "causalstore:next") // installed by upgrades
	// breaks a rule of the protocol; only the drills use it
	ImageBroken = setting("CAUSALSTORE_E2E_BROKEN", "causalstore:broken")
	ImageRedis  = setting("CAUSALSTORE_E2E_REDIS", "localhost/redis:7.0")
	ImageApp    = setting("CAUSALSTORE_E2E_APP", "localhost/app:1")
	ImageEtcd   = setting("CAUSALSTORE_E2E_ETCD", "localhost/etcd:3.6")
	ImageEnvoy  = setting("CAUSALSTORE_E2E_ENVOY", "localhost/envoy:1.40.0")
)

func setting(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

// ImageValues returns the chart values that select the image of CausalStore.
func ImageValues(name string) string { return imageValues("image", name) }

// EdgeImageValues returns the chart values that select the image of the edges.
func EdgeImageValues(name string) string { return imageValues("edge.image", name) }

// EtcdImageValues returns the chart values that select the image of etcd.
func EtcdImageValues(name string) string { return imageValues("etcd.image", name) }

func imageValues(key, name string) string {
	i := strings.LastIndex(name, ":")
	return fmt.Sprintf("%[1]s.repository=%[2]s,%[1]s.tag=%[3]s", key, name[:i], name[i+1:])
}

// Bed is the program of the test bed, in a directory for temporary files.
type Bed struct{ Program, Dir string }

// NewBed builds the program of the test bed.
func NewBed(ctx context.Context) (*Bed, error) {
	dir, err := os.MkdirTemp("", "causalstore-e2e-")
	if err != nil {
		return nil, err
	}
	b := &Bed{Program: filepath.Join(dir, "cluster"), Dir: dir}
	if err := Show(ctx, "go", "build", "-buildvcs=false", "-o", b.Program, "./e2e/cluster"); err != nil {
		return b, fmt.Errorf("build the test bed: %w", err)
	}
	return b, nil
}

// Run runs a command of the test bed and shows its output.
func (b *Bed) Run(ctx context.Context, args ...string) error { return Show(ctx, b.Program, args...) }

// Kubeconfig returns the path of the kubeconfig of a cluster, or an error if it does not run. Flags may choose the
// cluster.
func (b *Bed) Kubeconfig(ctx context.Context, flags ...string) (string, error) {
	out, err := exec.CommandContext(ctx, b.Program, append([]string{"kubeconfig"}, flags...)...).Output()
	return strings.TrimSpace(string(out)), err
}

// WriteImages writes archives of images.
func (b *Bed) WriteImages(ctx context.Context, edges bool) (archives []string, err error) {
	archive := func(name string) string {
		archives = append(archives, filepath.Join(b.Dir, name+".tar"))
		return archives[len(archives)-1]
	}
	commands := [][]string{{"image-causalstore", archive("causalstore"), ImageStore, archive("next"), ImageNext},
		{"image-redis", archive("redis"), ImageRedis}, {"image-app", archive("app"), ImageApp},
		{"image-etcd", archive("etcd"), ImageEtcd}}
	if edges {
		commands = append(commands, []string{"image-envoy", archive("envoy"), ImageEnvoy})
	}
	for _, args := range commands {
		if err := b.Run(ctx, args...); err != nil {
			return nil, fmt.Errorf("%s: %w", args[0], err)
		}
	}
	return archives, nil
}

// LoadImages imports archives on the nodes of a cluster. Flags may choose the cluster.
func (b *Bed) LoadImages(ctx context.Context, archives []string, flags ...string) error {
	if err := b.Run(ctx, append(append([]string{"load-image"}, archives...), flags...)...); err != nil {
		return fmt.Errorf("import images: %w", err)
	}
	return nil
}

// Close removes temporary files.
func (b *Bed) Close() error { return os.RemoveAll(b.Dir) }

// Show runs a command in the root of the checkout and shows its output.
func Show(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = Root, os.Stdout, os.Stderr
	return cmd.Run()
}
