// Package image writes container images of one layer to archives that `docker load` and `ctr images import` read. It
// needs neither a Docker engine nor a registry.
package image

import (
	"archive/tar"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/compression"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Write writes an image to an archive. Its name has the form that pod manifests use, such as "localhost/redis:7". The
// function fill writes its file system. The same files give the same archive, byte for byte.
func Write(archive, imageName string, config v1.Config, fill func(*Layer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write image %s to %s: %w", imageName, archive, err)
		}
	}()
	tag, err := qualify(imageName)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(filepath.Dir(archive), ".image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	files := filepath.Join(scratch, "layer.tar")
	if err := writeLayer(files, fill); err != nil {
		return err
	}
	image, err := assemble(files, config)
	if err != nil {
		return err
	}
	unfinished := filepath.Join(scratch, "image.tar")
	if err := tarball.WriteToFile(unfinished, tag, image); err != nil {
		return err
	}
	return os.Rename(unfinished, archive)
}

func writeLayer(path string, fill func(*Layer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // the second call, after success, does nothing
	l := &Layer{tar: tar.NewWriter(file), dirs: map[string]bool{}}
	if err := fill(l); err != nil {
		return err
	}
	if err := l.tar.Close(); err != nil {
		return err
	}
	return file.Close()
}

// assemble makes an image of one layer for the architecture of this process.
func assemble(layerFile string, config v1.Config) (v1.Image, error) {
	// Archives stay on this machine, so compressing them would only cost time.
	layer, err := tarball.LayerFromFile(layerFile, tarball.WithCompression(compression.None),
		tarball.WithMediaType(types.DockerUncompressedLayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH,
		Config: config,
		RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, layer)
}

// qualify returns the fully qualified name that a short name stands for. A name without a registry belongs to Docker
// Hub, which the container runtime calls docker.io.
func qualify(imageName string) (name.Tag, error) {
	tag, err := name.NewTag(imageName)
	if err != nil {
		return name.Tag{}, err
	}
	return name.NewTag(strings.Replace(tag.Name(), name.DefaultRegistry, "docker.io", 1))
}
