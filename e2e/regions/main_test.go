//go:build e2e

// Package regions_test runs one store in two real clusters that a WAN joins, as its users do: with Helm, kubectl and
// the plugin in each. It starts the clusters on this machine. `make e2e-regions` runs it.
package regions_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/causalstore/causalstore/e2e/kube"
)

// envKeep names a directory for the clusters, which then stay. Clusters that run there are used.
const envKeep = "CAUSALSTORE_E2E_REGIONS"

// bed is the clusters of all tests.
var bed joinedBed

// joinedBed is the clusters and the programs that tests use on the host.
type joinedBed struct {
	*kube.Bed
	// clusters is the directory of the clusters, store the program of this checkout.
	clusters, store string
	// kubeconfigs are the paths of the clusters' kubeconfigs, by their names on the test bed.
	kubeconfigs map[string]string
}

func TestMain(m *testing.M) { kube.Main(m, bed.prepare, bed.close) }

func (b *joinedBed) prepare(ctx context.Context) (err error) {
	if b.Bed, err = kube.NewBed(ctx); err != nil {
		return err
	}
	b.store = filepath.Join(b.Dir, "causalstore")
	if err := kube.Show(ctx, "go", "build", "-buildvcs=false", "-o", b.store, "."); err != nil {
		return err
	}
	if b.clusters = os.Getenv(envKeep); b.clusters == "" {
		b.clusters = filepath.Join(b.Dir, "clusters")
	}
	if err := b.run(ctx, "up", "--clusters", fmt.Sprint(len(regionNames))); err != nil {
		return fmt.Errorf("start the clusters: %w", err)
	}
	archives, err := b.WriteImages(ctx, true)
	if err != nil {
		return err
	}
	b.kubeconfigs = map[string]string{}
	for i := range regionNames {
		name := fmt.Sprintf("cluster-%d", i+1)
		dir := filepath.Join(b.clusters, name)
		if err := b.LoadImages(ctx, archives, "--dir", dir); err != nil {
			return err
		}
		if b.kubeconfigs[name], err = b.Kubeconfig(ctx, "--dir", dir); err != nil {
			return err
		}
	}
	return nil
}

// run runs a command of the test bed for these clusters and shows its output.
func (b *joinedBed) run(ctx context.Context, args ...string) error {
	return b.Run(ctx, append(args, "--dir", b.clusters)...)
}

// close stops the clusters, unless they are to stay, and removes temporary files.
func (b *joinedBed) close(ctx context.Context) error {
	if b.Bed == nil {
		return nil
	}
	if os.Getenv(envKeep) == "" && b.clusters != "" {
		if err := b.run(ctx, "down"); err != nil {
			return fmt.Errorf("stop the clusters: %w", err)
		}
	}
	return b.Close()
}
