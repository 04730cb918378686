// Package oci writes container images as OCI archives: one layer, no Docker engine.
package oci

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Image is what an archive holds.
type Image struct {
	// Name with its tag, as pods have it: "localhost/redis:7".
	Name       string
	Entrypoint []string
	Cmd        []string
	Env        []string
	WorkingDir string
	User       string
	Labels     map[string]string
}

// The media types of the image format's version 1.
const (
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeIndex    = "application/vnd.oci.image.index.v1+json"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        *descriptor  `json:"config,omitempty"`
	Layers        []descriptor `json:"layers,omitempty"`
	Manifests     []descriptor `json:"manifests,omitempty"`
}

type config struct {
	platform
	Config struct {
		User       string            `json:",omitempty"`
		Env        []string          `json:",omitempty"`
		Entrypoint []string          `json:",omitempty"`
		Cmd        []string          `json:",omitempty"`
		WorkingDir string            `json:",omitempty"`
		Labels     map[string]string `json:",omitempty"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// Write makes the archive of an image whose file system fill writes. The same files give the same bytes.
func Write(path string, image Image, fill func(*Layer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write image %s to %s: %w", image.Name, path, err)
		}
	}()
	layer, err := os.CreateTemp(filepath.Dir(path), ".layer-")
	if err != nil {
		return err
	}
	defer func() { _, _ = layer.Close(), os.Remove(layer.Name()) }()
	sum := sha256.New()
	l := &Layer{tar: tar.NewWriter(io.MultiWriter(layer, sum)), made: map[string]bool{}}
	if err := fill(l); err != nil {
		return err
	}
	if err := l.tar.Close(); err != nil {
		return err
	}
	size, err := layer.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return err
	}
	unfinished := path + ".new"
	if err := write(unfinished, image, descriptor{MediaType: typeLayer, Digest: digest(sum.Sum(nil)), Size: size}, layer); err != nil {
		return err
	}
	return os.Rename(unfinished, path)
}

func write(path string, image Image, layer descriptor, content io.Reader) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	put := func(name string, size int64, r io.Reader) error {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}); err != nil {
			return err
		}
		_, err := io.Copy(w, r)
		return err
	}
	// blob writes what v encodes to, and describes it.
	blob := func(mediaType string, v any) (descriptor, error) {
		b, err := json.Marshal(v)
		if err != nil {
			return descriptor{}, err
		}
		sum := sha256.Sum256(b)
		d := descriptor{MediaType: mediaType, Digest: digest(sum[:]), Size: int64(len(b))}
		return d, put(blobPath(d.Digest), d.Size, bytes.NewReader(b))
	}
	c := config{platform: platform{runtime.GOARCH, "linux"}}
	c.Config.User, c.Config.Env, c.Config.Entrypoint, c.Config.Cmd = image.User, image.Env, image.Entrypoint, image.Cmd
	c.Config.WorkingDir, c.Config.Labels = image.WorkingDir, image.Labels
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{layer.Digest} // it is not compressed, so both digests are the same
	configured, err := blob(typeConfig, c)
	if err != nil {
		return err
	}
	d, err := blob(typeManifest, manifest{SchemaVersion: 2, MediaType: typeManifest, Config: &configured, Layers: []descriptor{layer}})
	if err != nil {
		return err
	}
	name, tag := reference(image.Name)
	d.Annotations = map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}
	d.Platform = &c.platform
	index, err := json.Marshal(manifest{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{d}})
	if err != nil {
		return err
	}
	for _, f := range [][2]string{{"oci-layout", `{"imageLayoutVersion":"1.0.0"}`}, {"index.json", string(index)}} {
		if err := put(f[0], int64(len(f[1])), strings.NewReader(f[1])); err != nil {
			return err
		}
	}
	if err := put(blobPath(layer.Digest), layer.Size, content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Close()
}

// reference returns the whole name that a short one stands for, and its tag: what names no registry is on Docker Hub, as pods have it.
func reference(name string) (whole, tag string) {
	if _, tag, _ = strings.Cut(name[strings.LastIndex(name, "/")+1:], ":"); tag == "" {
		name, tag = name+":latest", "latest"
	}
	switch first, _, ok := strings.Cut(name, "/"); {
	case !ok:
		return "docker.io/library/" + name, tag
	case first == "localhost" || strings.ContainsAny(first, ".:"):
		return name, tag
	}
	return "docker.io/" + name, tag
}

func digest(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }

func blobPath(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }
