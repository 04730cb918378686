// Package npm installs the packages that the page is built and tested with.
package npm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Install returns the folder of the packages that the lock file names. They are kept in the cache of CausalStore's
// tools, by lock file.
func Install(web string) (string, error) {
	lock, err := os.ReadFile(filepath.Join(web, "package-lock.json"))
	if err != nil {
		return "", err
	}
	cache := os.Getenv("CAUSALSTORE_CACHE")
	if cache == "" {
		home, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(home, "causalstore")
	}
	sum := sha256.Sum256(lock)
	folder := filepath.Join(cache, "console-"+hex.EncodeToString(sum[:8]))
	modules := filepath.Join(folder, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	scratch, err := os.MkdirTemp(cache, "console-new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(scratch)
	for _, name := range []string{"package.json", "package-lock.json"} {
		if err := CopyFile(filepath.Join(scratch, name), filepath.Join(web, name)); err != nil {
			return "", err
		}
	}
	if err := Run(scratch, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"); err != nil {
		return "", err
	}
	// Another process may have been faster.
	if err := os.Rename(scratch, folder); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return modules, nil
}

// CopyFile copies a file.
func CopyFile(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// Run runs a program in a folder, with its output on standard error.
func Run(dir, name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Dir, c.Stdout, c.Stderr = dir, os.Stderr, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	return nil
}
