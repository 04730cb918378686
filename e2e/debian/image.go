package debian

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/causalstore/causalstore/e2e/image"
)

// Image describes an image of Debian programs.
type Image struct {
	Name   string
	Config v1.Config
	// Packages that contain the programs.
	Packages []string
	// Programs by absolute path. The shared libraries that they load are added.
	Programs []string
	// Files are programs that no package contains: absolute path in the image to path on this machine.
	Files map[string]string
	// Links are symbolic links: name to target.
	Links map[string]string
}

// Write writes the archive of an image.
func Write(ctx context.Context, archive string, of Image) error {
	dir, err := os.MkdirTemp(filepath.Dir(archive), ".debian-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := unpackPackages(ctx, dir, of.Packages); err != nil {
		return fmt.Errorf("make image %s: %w", of.Name, err)
	}
	files := &closure{root: filepath.Join(dir, "root"), seen: map[string]bool{}}
	for name, source := range of.Files {
		if err := copyFile(filepath.Join(files.root, name), source); err != nil {
			return fmt.Errorf("make image %s: %w", of.Name, err)
		}
	}
	for _, program := range slices.Concat(of.Programs, slices.Sorted(maps.Keys(of.Files))) {
		if err := files.add(program); err != nil {
			return fmt.Errorf("make image %s: %w", of.Name, err)
		}
	}
	return image.Write(archive, of.Name, of.Config, func(l *image.Layer) error {
		for _, name := range files.names {
			if err := l.File(name, filepath.Join(files.root, files.resolveLinks(name)), 0o755); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(of.Links)) {
			if err := l.Link(name, of.Links[name]); err != nil {
				return err
			}
		}
		return errors.Join(l.Dir("tmp", 0o1777, 0), l.Dir("data", 0o777, 0))
	})
}

func copyFile(to, from string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, source); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// closure is a set of ELF files that is closed under loading: it contains the dynamic linker and all shared libraries
// of its members.
type closure struct {
	root  string // directory in which the packages were unpacked
	seen  map[string]bool
	names []string // in the order in which they were added
}

// libraryDirs are the directories that Debian's dynamic linker searches; the pattern stands for the architecture's
// triplet.
var libraryDirs = []string{"/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*", "/lib", "/usr/lib"}

// add adds a file and everything that it loads.
func (c *closure) add(name string) error {
	if c.seen[name] {
		return nil
	}
	c.seen[name] = true
	c.names = append(c.names, name)
	file, err := elf.Open(filepath.Join(c.root, c.resolveLinks(name)))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer func() { _ = file.Close() }()
	libraries, err := file.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			linker := make([]byte, p.Filesz)
			if _, err := p.ReadAt(linker, 0); err != nil {
				return err
			}
			if err := c.add(strings.TrimRight(string(linker), "\x00")); err != nil {
				return err
			}
		}
	}
	for _, library := range libraries {
		path, err := c.findLibrary(library)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := c.add(path); err != nil {
			return err
		}
	}
	return nil
}

func (c *closure) findLibrary(library string) (string, error) {
	for _, dir := range libraryDirs {
		found, err := filepath.Glob(filepath.Join(c.root, dir, library))
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return strings.TrimPrefix(found[0], c.root), nil
		}
	}
	return "", fmt.Errorf("no package contains %s", library)
}

// resolveLinks follows symbolic links, whose targets are relative to the root of the closure.
func (c *closure) resolveLinks(name string) string {
	for range 10 { // more are a cycle
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
