//go:build e2e

// Package store_test uses CausalStore on a real cluster as its users do, with Helm, kubectl and a stock Redis client. It uses the
// cluster of KUBECONFIG, or else starts one on this machine for as long as the tests run. `make e2e` runs it.
package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/e2e/binaries"
)

// The images to use. The nodes of a cluster given by KUBECONFIG must be able to pull them.
var (
	imageStore = setting("CAUSALSTORE_E2E_IMAGE", "causalstore:dev")
	imageNext  = setting("CAUSALSTORE_E2E_NEXT", "causalstore:next") // installed by the upgrade
	imageRedis = setting("CAUSALSTORE_E2E_REDIS", "localhost/redis:7.0")
	imageApp   = setting("CAUSALSTORE_E2E_APP", "localhost/app:1")
)

func setting(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

// root is the root of the checkout.
var root = filepath.Join("..", "..")

func TestMain(m *testing.M) { os.Exit(withCluster(m)) }

// withCluster runs the tests, on a test bed of their own if KUBECONFIG names no cluster.
func withCluster(m *testing.M) int {
	ctx := context.Background()
	bed := &testBed{}
	code := 1
	err := bed.prepare(ctx)
	if err == nil {
		code = m.Run()
	}
	if err = errors.Join(err, bed.close(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return code
}

// testBed is the part of the test bed that this process created.
type testBed struct {
	program, dir string
	// up is set if this process started the cluster.
	up bool
}

// bedIsOurs is set if the tests run on a test bed that this process started.
var bedIsOurs bool

// envLoad is set if the cluster of KUBECONFIG is a running test bed, on whose nodes to import the images.
const envLoad = "CAUSALSTORE_E2E_LOAD"

func (b *testBed) prepare(ctx context.Context) (err error) {
	given := os.Getenv("KUBECONFIG") != ""
	if given && os.Getenv(envLoad) == "" {
		return nil
	}
	if b.dir, err = os.MkdirTemp("", "causalstore-e2e-"); err != nil {
		return err
	}
	b.program = filepath.Join(b.dir, "cluster")
	if err := command(ctx, "go", "build", "-buildvcs=false", "-o", b.program, "./e2e/cluster").Run(); err != nil {
		return fmt.Errorf("build the test bed: %w", err)
	}
	if !given {
		if out, err := exec.CommandContext(ctx, b.program, "kubeconfig").Output(); err == nil {
			return fmt.Errorf("a test bed is already running: stop it with `make cluster-down`, or use it with KUBECONFIG=%s %s=1",
				strings.TrimSpace(string(out)), envLoad)
		}
		b.up, bedIsOurs = true, true
		if err := command(ctx, b.program, "up").Run(); err != nil {
			return fmt.Errorf("start the test bed: %w", err)
		}
		out, err := exec.CommandContext(ctx, b.program, "kubeconfig").Output()
		if err != nil {
			return err
		}
		if err := os.Setenv("KUBECONFIG", strings.TrimSpace(string(out))); err != nil {
			return err
		}
	}
	return b.loadImages(ctx)
}

// command returns a command that runs in the root of the checkout and shows its output.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, os.Stdout, os.Stderr
	return cmd
}

func (b *testBed) loadImages(ctx context.Context) error {
	archives := []string{}
	archive := func(name string) string {
		archives = append(archives, filepath.Join(b.dir, name+".tar"))
		return archives[len(archives)-1]
	}
	for _, args := range [][]string{
		{"image-causalstore", archive("causalstore"), imageStore, archive("next"), imageNext},
		{"image-redis", archive("redis"), imageRedis}, {"image-app", archive("app"), imageApp},
	} {
		if err := command(ctx, b.program, args...).Run(); err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
	}
	if err := command(ctx, b.program, append([]string{"load-image"}, archives...)...).Run(); err != nil {
		return fmt.Errorf("import images: %w", err)
	}
	return nil
}

// close stops the cluster, if this process started it, and removes temporary files.
func (b *testBed) close(ctx context.Context) error {
	if b.up {
		if err := command(ctx, b.program, "down").Run(); err != nil {
			return fmt.Errorf("stop the test bed: %w", err)
		}
	}
	return os.RemoveAll(b.dir)
}

// kubectl returns a command of the kubectl that belongs to the other programs of Kubernetes, or else of the one in PATH.
func kubectl(ctx context.Context, args ...string) (*exec.Cmd, error) {
	if f, err := binaries.Find(ctx, "kubectl"); err == nil {
		return f.Command("kubectl", args...)
	}
	path, err := exec.LookPath("kubectl")
	return exec.CommandContext(ctx, path, args...), err
}
