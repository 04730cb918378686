package oci_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/e2e/oci"
)

func TestAnArchiveHasTheFilesAndAllDigestsAreThoseOfItsBlobs(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "image.tar")
	image := oci.Image{Name: "shop/app:2", Entrypoint: []string{"/bin/app"}, User: "1:1"}
	err := oci.Write(archive, image, func(l *oci.Layer) error {
		return errors.Join(l.Dir("tmp", 0o1777, 1), l.File("bin/app", program, 0o755), l.Link("bin/other", "app"))
	})
	if err != nil {
		t.Fatal(err)
	}
	files := read(t, archive)
	for name, text := range files {
		if want, ok := strings.CutPrefix(name, "blobs/sha256/"); ok {
			if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != want {
				t.Errorf("%s has the digest %x", name, sum)
			}
		}
	}
	index := decode(t, files["index.json"])
	entry := index["manifests"].([]any)[0].(map[string]any)
	if name := entry["annotations"].(map[string]any)["io.containerd.image.name"]; name != "docker.io/shop/app:2" {
		t.Errorf("the image is called %s", name)
	}
	manifest := decode(t, blob(t, files, entry))
	config := decode(t, blob(t, files, manifest["config"].(map[string]any)))
	if user := config["config"].(map[string]any)["User"]; user != "1:1" {
		t.Errorf("its user is %v", user)
	}
	layer := entries(t, blob(t, files, manifest["layers"].([]any)[0].(map[string]any)))
	want := map[string]int64{"tmp/": 0o1777, "bin/": 0o755, "bin/app": 0o755, "bin/other": 0o777}
	if d := cmp.Diff(want, layer); d != "" {
		t.Error(d)
	}
}

func TestNamesAreWholeAsPodsHaveThem(t *testing.T) {
	for name, want := range map[string]string{
		"causalstore:dev": "docker.io/library/causalstore:dev", "redis": "docker.io/library/redis:latest", "localhost/app:1": "localhost/app:1",
		"registry.example.com:5000/a/b:v1": "registry.example.com:5000/a/b:v1",
	} {
		archive := filepath.Join(t.TempDir(), "image.tar")
		if err := oci.Write(archive, oci.Image{Name: name}, func(*oci.Layer) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(read(t, archive)["index.json"], []byte(`"`+want+`"`)) {
			t.Errorf("%s is not called %s", name, want)
		}
	}
}

func read(t *testing.T, archive string) map[string][]byte {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	files := map[string][]byte{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// entries are the names in a layer with their modes.
func entries(t *testing.T, layer []byte) map[string]int64 {
	t.Helper()
	modes := map[string]int64{}
	for r := tar.NewReader(bytes.NewReader(layer)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return modes
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[h.Name] = h.Mode
	}
}

func blob(t *testing.T, files map[string][]byte, descriptor map[string]any) []byte {
	t.Helper()
	text, ok := files["blobs/"+strings.Replace(descriptor["digest"].(string), ":", "/", 1)]
	if !ok {
		t.Fatalf("there is no blob %v", descriptor["digest"])
	}
	return text
}

func decode(t *testing.T, text []byte) map[string]any {
	t.Helper()
	v := map[string]any{}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
