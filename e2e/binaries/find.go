package binaries

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Find returns a directory with the named programs. If there is none, the error is ErrNone. If an environment variable
// names a directory that lacks a program, that is a different error.
func Find(ctx context.Context, names ...string) (Folder, error) {
	f, err := folder(ctx)
	if err != nil {
		return f, err
	}
	var missing []error
	for _, name := range names {
		_, err := f.Path(name)
		missing = append(missing, err)
	}
	return f, errors.Join(missing...)
}

func folder(ctx context.Context) (Folder, error) {
	for _, env := range []string{EnvBinaries, EnvAssets} {
		if dir := os.Getenv(env); dir != "" {
			return Folder{dir, env}, nil
		}
	}
	kept, err := cache()
	if err != nil {
		return Folder{}, fmt.Errorf("%w (%w)", ErrNone, err)
	}
	if archive := filepath.Join(kept, "kube.tar.xz"); exists(archive) {
		dir, err := unpack(ctx, archive, "kube")
		if err != nil {
			err = fmt.Errorf("unpack %s: %w", archive, err)
		}
		return Folder{dir, archive}, err
	}
	dir, err := buildFolder()
	if err != nil {
		return Folder{}, fmt.Errorf("%w (%w)", ErrNone, err)
	}
	if !exists(filepath.Join(dir, built)) {
		return Folder{}, ErrNone
	}
	return Folder{dir, "make kubernetes"}, nil
}

// Helm returns the path of helm, from PATH or from the directory of the other programs.
func Helm(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("helm"); err == nil {
		return path, nil
	}
	f, err := Find(ctx, "helm")
	if err != nil {
		return "", fmt.Errorf("helm not found; install it, or run `make kubernetes` (%w)", err)
	}
	return f.Path("helm")
}

// unpack extracts an archive of one folder, once for each version of it; several processes may do so at the same time.
// It always extracts to the user's own cache, because the directory of the archive may belong to somebody else.
func unpack(ctx context.Context, archive, folder string) (string, error) {
	info, err := os.Stat(archive)
	if err != nil {
		return "", err
	}
	home, err := userCache()
	if err != nil {
		return "", err
	}
	home = filepath.Join(home, "kubernetes")
	dir := filepath.Join(home, fmt.Sprintf("%s-%d-%d", folder, info.Size(), info.ModTime().Unix()))
	if exists(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", err
	}
	scratch, err := os.MkdirTemp(home, ".unpacking-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	var output bytes.Buffer
	tar := exec.CommandContext(ctx, "tar", "-xJf", archive, "-C", scratch)
	tar.Stderr = &output
	if err := tar.Run(); err != nil {
		return "", fmt.Errorf("tar: %w: %s", err, bytes.TrimSpace(output.Bytes()))
	}
	if err := os.Rename(filepath.Join(scratch, folder), dir); err != nil && !exists(dir) {
		// another process may have been faster
		return "", err
	}
	return dir, nil
}
