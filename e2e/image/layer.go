package image

import (
	"archive/tar"
	"io"
	"os"
	"path"
	"strings"
)

// Layer writes the file system of an image. Files belong to root and have no modification time.
type Layer struct {
	tar  *tar.Writer
	dirs map[string]bool // written so far
}

// Dir writes a directory and its missing parents.
func (l *Layer) Dir(name string, mode int64, owner int) error {
	name = strings.Trim(path.Clean("/"+name), "/")
	if name == "" || l.dirs[name] {
		return nil
	}
	if err := l.Dir(path.Dir(name), 0o755, 0); err != nil {
		return err
	}
	l.dirs[name] = true
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
	defer func() { _ = f.Close() }()
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

// Link writes a symbolic link.
func (l *Layer) Link(name, target string) error {
	if err := l.Dir(path.Dir(name), 0o755, 0); err != nil {
		return err
	}
	return l.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: strings.TrimPrefix(name, "/"),
		Linkname: target, Mode: 0o777})
}
