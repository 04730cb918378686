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

// groupPrefix is what the names of the control groups begin with that clusters have.
const groupPrefix = "causalstore-cluster-"

// group is the control group of the cluster, in every hierarchy. It has a group for each node.
func (b *bed) group() string {
	sum := sha256.Sum256([]byte(b.dir))
	return groupPrefix + hex.EncodeToString(sum[:4])
}

// makeGroups makes the control groups of a node, and the ones above them.
func (b *bed) makeGroups(n node) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for controller, root := range all {
		group := filepath.Join(root, b.group())
		if err := os.MkdirAll(group, 0o755); err != nil {
			return err
		}
		if controller == "cpuset" { // its groups begin without a CPU
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				is, err := os.ReadFile(filepath.Join(root, file))
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(group, file), is, 0o644); err != nil {
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

// joinGroups puts this process into the groups of a node.
func (b *bed) joinGroups(n node) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range all {
		if err := os.WriteFile(filepath.Join(root, b.group(), n.Name, "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// removeGroups removes all groups below a name, when the processes in them have ended.
func removeGroups(ctx context.Context, name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range all {
		if err := removeGroup(ctx, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}

// onlyCluster says that no other cluster has control groups on this machine.
func onlyCluster() (bool, error) {
	all, err := hierarchies()
	if err != nil {
		return false, err
	}
	others, err := filepath.Glob(filepath.Join(all["pids"], groupPrefix+"*"))
	return len(others) == 0, err
}

// removeTimeout is how long the kernel may take to see that a group is empty.
const removeTimeout = 10 * time.Second

func removeGroup(ctx context.Context, dir string) error {
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
	slices.Reverse(groups) // the inner ones first
	for _, g := range groups {
		err := await(ctx, removeTimeout, func() error {
			if err := os.Remove(g); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("remove control group: %w", err)
		}
	}
	return nil
}

// await tries until there is no error, or the time is over.
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
