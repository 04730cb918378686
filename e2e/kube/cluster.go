package kube

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// EnvLoad is set if the cluster of KUBECONFIG is a running test bed, on whose nodes to import the images.
const EnvLoad = "CAUSALSTORE_E2E_LOAD"

// Cluster is the cluster of KUBECONFIG, or else a test bed that this process starts.
type Cluster struct {
	// Zones are those of a test bed that is started. If there are none, it has its defaults.
	Zones []string
	// Bed is the program of the test bed, or nil if the cluster of KUBECONFIG is another one.
	Bed *Bed
	up  bool
}

// IsOurs reports whether this process started the cluster.
func (c *Cluster) IsOurs() bool { return c.up }

// Prepare starts a test bed if KUBECONFIG names no cluster, and imports the images.
func (c *Cluster) Prepare(ctx context.Context) (err error) {
	given := os.Getenv("KUBECONFIG") != ""
	if given && os.Getenv(EnvLoad) == "" {
		return nil
	}
	if c.Bed, err = NewBed(ctx); err != nil {
		return err
	}
	if !given {
		if err := c.start(ctx); err != nil {
			return err
		}
	}
	archives, err := c.Bed.WriteImages(ctx, false)
	if err != nil {
		return err
	}
	return c.Bed.LoadImages(ctx, archives)
}

// start starts a test bed and names it in KUBECONFIG.
func (c *Cluster) start(ctx context.Context) error {
	if path, err := c.Bed.Kubeconfig(ctx); err == nil {
		return fmt.Errorf(
			"a test bed is already running: stop it with `make cluster-down`, or use it with KUBECONFIG=%s %s=1",
			path, EnvLoad)
	}
	args := []string{"up"}
	if len(c.Zones) > 0 {
		args = append(args, "--zones", strings.Join(c.Zones, ","))
	}
	c.up = true
	if err := c.Bed.Run(ctx, args...); err != nil {
		return fmt.Errorf("start the test bed: %w", err)
	}
	path, err := c.Bed.Kubeconfig(ctx)
	if err != nil {
		return err
	}
	return os.Setenv("KUBECONFIG", path)
}

// Close stops the cluster, if this process started it, and removes temporary files.
func (c *Cluster) Close(ctx context.Context) error {
	if c.Bed == nil {
		return nil
	}
	if c.up {
		if err := c.Bed.Run(ctx, "down"); err != nil {
			return fmt.Errorf("stop the test bed: %w", err)
		}
	}
	return c.Bed.Close()
}
