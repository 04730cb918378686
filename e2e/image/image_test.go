package image_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/causalstore/causalstore/e2e/image"
)

func opener(archive string) tarball.Opener {
	return func() (io.ReadCloser, error) { return os.Open(archive) }
}

func TestAnArchiveIsAValidImageWithTheFilesThatWereWritten(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	fill := func(l *image.Layer) error {
		return errors.Join(l.Dir("tmp", 0o1777, 1), l.File("bin/app", program, 0o755), l.Link("bin/other", "app"))
	}
	archives := []string{filepath.Join(dir, "image.tar"), filepath.Join(dir, "again.tar")}
	for _, archive := range archives {
		if err := image.Write(archive, "shop/app:2", v1.Config{Entrypoint: []string{"/bin/app"}, User: "1:1"},
			fill); err != nil {
			t.Fatal(err)
		}
	}
	got, err := tarball.Image(opener(archives[0]), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(got); err != nil {
		t.Errorf("digests and sizes: %v", err)
	}
	config, err := got.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(v1.Config{Entrypoint: []string{"/bin/app"}, User: "1:1"}, config.Config); d != "" {
		t.Errorf("config (-want +got):\n%s", d)
	}
	layers, err := got.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers (%v), want 1", len(layers), err)
	}
	want := map[string]int64{"tmp/": 0o1777, "bin/": 0o755, "bin/app": 0o755, "bin/other": 0o777}
	if d := cmp.Diff(want, modes(t, layers[0])); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	first, err := os.ReadFile(archives[0])
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(archives[1])
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("the same files give two different archives")
	}
}

func TestImageNamesAreFullyQualified(t *testing.T) {
	for name, want := range map[string]string{
		"causalstore:dev": "docker.io/library/causalstore:dev", "redis": "docker.io/library/redis:latest",
		"shop/app:2":      "docker.io/shop/app:2",
		"localhost/app:1": "localhost/app:1", "registry.example.com:5000/a/b:v1": "registry.example.com:5000/a/b:v1",
	} {
		archive := filepath.Join(t.TempDir(), "image.tar")
		if err := image.Write(archive, name, v1.Config{}, func(*image.Layer) error { return nil }); err != nil {
			t.Fatal(err)
		}
		manifest, err := tarball.LoadManifest(opener(archive))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{want}, manifest[0].RepoTags); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestAFailedWriteLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	err := image.Write(filepath.Join(dir, "image.tar"), "app:1", v1.Config{}, func(l *image.Layer) error {
		return l.File("a", "/none", 0o644)
	})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// modes returns the modes of the files in a layer, by name.
func modes(t *testing.T, layer v1.Layer) map[string]int64 {
	t.Helper()
	files, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = files.Close() }()
	found := map[string]int64{}
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found[h.Name] = h.Mode
	}
}
