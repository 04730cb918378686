//go:build e2e

// Package store_test uses CausalStore on a real cluster as its users do, with Helm, kubectl and a stock Redis client. It uses the
// cluster of KUBECONFIG, or else starts one on this machine for as long as the tests run. `make e2e` runs it.
package store_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/causalstore/causalstore/e2e/kube"
)

// TestMain runs the tests on a test bed of their own if KUBECONFIG names no cluster.
func TestMain(m *testing.M) {
	bed := &testBed{}
	kube.Main(m, bed.prepare, bed.close)
}

// testBed is the part of the test bed that this process created.
type testBed struct {
	*kube.Bed
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
	if b.Bed, err = kube.NewBed(ctx); err != nil {
		return err
	}
	if !given {
		if path, err := b.Kubeconfig(ctx); err == nil {
			return fmt.Errorf("a test bed is already running: stop it with `make cluster-down`, or use it with KUBECONFIG=%s %s=1", path, envLoad)
		}
		b.up, bedIsOurs = true, true
		if err := b.Run(ctx, "up"); err != nil {
			return fmt.Errorf("start the test bed: %w", err)
		}
		path, err := b.Kubeconfig(ctx)
		if err != nil {
			return err
		}
		if err := os.Setenv("KUBECONFIG", path); err != nil {
			return err
		}
	}
	archives, err := b.WriteImages(ctx, false)
	if err != nil {
		return err
	}
	return b.LoadImages(ctx, archives)
}

// close stops the cluster, if this process started it, and removes temporary files.
func (b *testBed) close(ctx context.Context) error {
	if b.Bed == nil {
		return nil
	}
	if b.up {
		if err := b.Run(ctx, "down"); err != nil {
			return fmt.Errorf("stop the test bed: %w", err)
		}
	}
	return b.Close()
}
