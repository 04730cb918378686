package debian

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/causalstore/causalstore/e2e/oci"
)

// Image says what an image is made of.
type Image struct {
	oci.Image
	// Packages to take programs from.
	Packages []string
	// Programs by their paths.
	Programs []string
	// Links are made as given: name and target.
	Links map[string]string
}

// Write makes the archive of an image.
func Write(ctx context.Context, archive string, image Image) error {
	dir, err := os.MkdirTemp(filepath.Dir(archive), ".debian-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := pool(ctx, dir, image.Packages); err != nil {
		return fmt.Errorf("make image %s: %w", image.Name, err)
	}
	files := &closure{root: filepath.Join(dir, "root"), taken: map[string]bool{}}
	for _, program := range image.Programs {
		if err := files.take(program); err != nil {
			return fmt.Errorf("make image %s: %w", image.Name, err)
		}
	}
	return oci.Write(archive, image.Image, func(l *oci.Layer) error {
		for _, name := range files.all {
			if err := l.File(name, filepath.Join(files.root, files.source(name)), 0o755); err != nil {
				return err
			}
		}
		for name, target := range image.Links {
			if err := l.Link(name, target); err != nil {
				return err
			}
		}
		return errors.Join(l.Dir("tmp", 0o1777, 0), l.Dir("data", 0o777, 0))
	})
}

// closure is a set of files with all that they load.
type closure struct {
	root  string
	taken map[string]bool
	all   []string
}

// libraryFolders are where the dynamic linker of Debian looks, with the triplet of the architecture.
var libraryFolders = []string{"/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*", "/lib", "/usr/lib"}

func (c *closure) take(name string) error {
	if c.taken[name] {
		return nil
	}
	c.taken[name] = true
	c.all = append(c.all, name)
	file, err := elf.Open(filepath.Join(c.root, c.source(name)))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer file.Close()
	needed, err := file.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			linker := make([]byte, p.Filesz)
			if _, err := p.ReadAt(linker, 0); err != nil {
				return err
			}
			if err := c.take(strings.TrimRight(string(linker), "\x00")); err != nil {
				return err
			}
		}
	}
	for _, library := range needed {
		found, err := c.find(library)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := c.take(found); err != nil {
			return err
		}
	}
	return nil
}

func (c *closure) find(library string) (string, error) {
	for _, folder := range libraryFolders {
		found, err := filepath.Glob(filepath.Join(c.root, folder, library))
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return strings.TrimPrefix(found[0], c.root), nil
		}
	}
	return "", fmt.Errorf("no package has %s", library)
}

// source follows links, which lead to places below the root.
func (c *closure) source(name string) string {
	for range 10 {
		info, err := os.Lstat(filepath.Join(c.root, name))
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			break
		}
		target, err := os.Readlink(filepath.Join(c.root, name))
		if err != nil {
			break
		}
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(name), target)
		}
		name = target
	}
	return name
}
