package oci

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Layer is the file system of an image while it is written. All files belong to root, and none has a time, unless it is said.
type Layer struct {
	tar  *tar.Writer
	made map[string]bool // folders
}

// Dir makes a folder, and those above it.
func (l *Layer) Dir(name string, mode int64, owner int) error {
	name = strings.Trim(path.Clean("/"+name), "/")
	if name == "" || l.made[name] {
		return nil
	}
	if err := l.Dir(path.Dir(name), 0o755, 0); err != nil {
		return err
	}
	l.made[name] = true
	return l.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode, Uid: owner, Gid: owner})
}

// File copies a file of this machine.
func (l *Layer) File(name, source string, mode int64) error {
	if err := l.Dir(path.Dir(name), 0o755, 0); err != nil {
		return err
	}
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Mode: mode, Size: info.Size()}
	if err := l.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(l.tar, f)
	return err
}

// Link makes a symbolic link.
func (l *Layer) Link(name, target string) error {
	if err := l.Dir(path.Dir(name), 0o755, 0); err != nil {
		return err
	}
	return l.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: strings.TrimPrefix(name, "/"), Linkname: target, Mode: 0o777})
}

// Tree copies a folder of this machine, but not what skip says; names are given to it from the folder on. Devices and sockets are
// an error.
func (l *Layer) Tree(root string, skip func(name string) bool) error {
	return filepath.WalkDir(root, func(source string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, source)
		if err != nil {
			return err
		}
		if name != "." && skip(name) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch mode := int64(info.Mode().Perm()); {
		case d.IsDir():
			return l.Dir(name, mode, 0)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(source)
			return errors.Join(err, l.Link(name, target))
		case info.Mode().IsRegular():
			return l.File(name, source, mode)
		}
		return fmt.Errorf("%s is neither a file, nor a folder, nor a link", source)
	})
}
