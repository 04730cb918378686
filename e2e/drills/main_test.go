//go:build e2e

// Package drills_test takes pods and zones of a store away with Chaos Mesh, on a real cluster, while clients use the
// store: with plain experiments and kubectl, as anybody can. It uses the cluster of KUBECONFIG, on which Chaos Mesh
// must be installed, or else starts one on this machine for as long as the tests run. `make e2e-drills` runs it.
package drills_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/causalstore/causalstore/e2e/kube"
)

// cluster has a front and a back zone for each of two data centers.
var cluster = kube.Cluster{Zones: []string{"zone-a", "zone-b", "zone-c", "zone-d"}}

func TestMain(m *testing.M) { kube.Main(m, prepare, cluster.Close) }

func prepare(ctx context.Context) error {
	if err := cluster.Prepare(ctx); err != nil || cluster.Bed == nil {
		return err
	}
	archive := filepath.Join(cluster.Bed.Dir, "broken.tar")
	if err := cluster.Bed.Run(ctx, "image-broken", brokenFault, archive, kube.ImageBroken); err != nil {
		return err
	}
	if err := cluster.Bed.LoadImages(ctx, []string{archive}); err != nil {
		return err
	}
	return cluster.Bed.Run(ctx, "chaos-mesh")
}
