//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// cgroupPrefix starts the names of the cgroups of clusters.
const cgroupPrefix = "causalstore-cluster-"

// cgroup returns the name of the cluster's cgroup, the same in every hierarchy. It contains a cgroup for each node.
func (b *bed) cgroup() string {
	sum := sha256.Sum256([]byte(b.dir))
	return cgroupPrefix + hex.EncodeToString(sum[:4])
}

// createCgroups creates the cgroups of a node and their parents.
func (b *bed) createCgroups(n node) error {
	all, err := findHierarchies()
	if err != nil {
		return err
	}
	for controller, root := range all {
		group := filepath.Join(root, b.cgroup())
		if err := os.MkdirAll(group, 0o755); err != nil {
			return err
		}
		if controller == "cpuset" { // new groups have no CPUs
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				value, err := os.ReadFile(filepath.Join(root, file))
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(group, file), value, 0o644); err != nil {
					return err
				}
			}
			if err := os.WriteFile(filepath.Join(group, "cgroup.clone_children"), []byte("1"), 0o644); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(filepath.Join(group, n.Name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// joinCgroups moves this process into the cgroups of a node.
func (b *bed) joinCgroups(n node) error {
	all, err := findHierarchies()
	if err != nil {
		return err
	}
	for _, root := range all {
		if err := os.WriteFile(filepath.Join(root, b.cgroup(), n.Name, "cgroup.procs"), []byte("0"),
			0o644); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroups removes a cgroup and its children from every hierarchy. Their processes must have ended.
func removeCgroups(ctx context.Context, name string) error {
	all, err := findHierarchies()
	if err != nil {
		return err
	}
	for _, root := range all {
		if err := removeCgroup(ctx, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}

// isOnlyCluster reports whether no cluster has cgroups on this machine.
func isOnlyCluster() (bool, error) {
	all, err := findHierarchies()
	if err != nil {
		return false, err
	}
	others, err := filepath.Glob(filepath.Join(all["pids"], cgroupPrefix+"*"))
	return len(others) == 0, err
}

// removeTimeout bounds how long the kernel takes to notice that a cgroup is empty.
const removeTimeout = 10 * time.Second

func removeCgroup(ctx context.Context, dir string) error {
	var groups []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			groups = append(groups, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Reverse(groups) // innermost first
	for _, g := range groups {
		err := await(ctx, removeTimeout, func() error {
			if err := os.Remove(g); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("remove cgroup: %w", err)
		}
	}
	return nil
}

// await calls try until it succeeds or the time limit is reached.
func await(ctx context.Context, limit time.Duration, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, ctx.Err())
		case <-again.C:
		}
	}
}
