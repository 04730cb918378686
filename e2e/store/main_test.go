//go:build e2e

// Package store_test uses CausalStore as its users do, on a real cluster: Helm, kubectl, a stock Redis client. With KUBECONFIG set it
// is that cluster; else one is made on this machine for as long as the tests run. `make e2e` runs it.
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

// The images that are used; on a cluster of one's own they must be ones that its nodes can get.
var (
	imageStore = setting("CAUSALSTORE_E2E_IMAGE", "causalstore:dev")
	imageNext  = setting("CAUSALSTORE_E2E_NEXT", "causalstore:next") // what an upgrade brings
	imageRedis = setting("CAUSALSTORE_E2E_REDIS", "localhost/redis:7.0")
	imageApp   = setting("CAUSALSTORE_E2E_APP", "localhost/app:1")
)

func setting(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// root of the checkout.
var root = filepath.Join("..", "..")

func TestMain(m *testing.M) { os.Exit(withCluster(m)) }

// withCluster runs the tests. The test bed is taken down only by who has made it.
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

// testBed is what was made here.
type testBed struct {
	program, dir string
	// up says that the cluster was made here.
	up bool
}

// envLoad says that the cluster of KUBECONFIG is a test bed that runs already, whose nodes are to be given the images.
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
			return fmt.Errorf("a test bed runs already: end it with `make cluster-down`, or use it with KUBECONFIG=%s %s=1",
				strings.TrimSpace(string(out)), envLoad)
		}
		b.up = true
		if err := command(ctx, b.program, "up").Run(); err != nil {
			return fmt.Errorf("make the test bed: %w", err)
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

// command runs in the root of the checkout, and says what it does.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, os.Stdout, os.Stderr
	return cmd
}

func (b *testBed) loadImages(ctx context.Context) error {
	archives := []string{}
	for i, image := range []struct{ kind, name string }{{"causalstore", imageStore}, {"causalstore", imageNext}, {"redis", imageRedis}, {"app", imageApp}} {
		archive := filepath.Join(b.dir, fmt.Sprintf("%d.tar", i))
		if err := command(ctx, b.program, "image-"+image.kind, archive, image.name).Run(); err != nil {
			return fmt.Errorf("make image %s: %w", image.name, err)
		}
		archives = append(archives, archive)
	}
	if err := command(ctx, b.program, append([]string{"load-image"}, archives...)...).Run(); err != nil {
		return fmt.Errorf("give the nodes their images: %w", err)
	}
	return nil
}

// close leaves what was there before.
func (b *testBed) close(ctx context.Context) error {
	if b.up {
		if err := command(ctx, b.program, "down").Run(); err != nil {
			return fmt.Errorf("take down the test bed: %w", err)
		}
	}
	return os.RemoveAll(b.dir)
}

// kubectl is the one that comes with the other programs of Kubernetes, or that in PATH, which may be older.
func kubectl(ctx context.Context, args ...string) (*exec.Cmd, error) {
	if f, err := binaries.Find(ctx, "kubectl"); err == nil {
		return f.Command("kubectl", args...)
	}
	path, err := exec.LookPath("kubectl")
	return exec.CommandContext(ctx, path, args...), err
}
