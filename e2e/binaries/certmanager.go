package binaries

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoCertManager is returned if cert-manager is not in the cache.
var ErrNoCertManager = errors.New("no cert-manager found; build it with `make cert-manager`")

const certManagerModule = "github.com/cert-manager/cert-manager"

// CertManager are the controller of cert-manager, and its CRDs as they are installed.
type CertManager struct{ Controller, CRDs string }

// FindCertManager returns what BuildCertManager has left in the cache.
func FindCertManager() (CertManager, error) {
	c, err := certManager()
	if err == nil && (!exists(c.Controller) || !exists(c.CRDs)) {
		err = ErrNoCertManager
	}
	return c, err
}

func certManager() (CertManager, error) {
	home, err := cache()
	if err != nil {
		return CertManager{}, err
	}
	source, err := sourceFolder()
	if err != nil {
		return CertManager{}, err
	}
	pins, err := os.ReadFile(filepath.Join(source, "certmanager", "go.mod"))
	if err != nil {
		return CertManager{}, err
	}
	sum := sha256.Sum256(pins)
	dir := filepath.Join(home, "cert-manager", "built-"+hex.EncodeToString(sum[:6]))
	return CertManager{Controller: filepath.Join(dir, "controller"), CRDs: filepath.Join(dir, "crds")}, nil
}

// BuildCertManager builds cert-manager from its Go module, unless it is in the cache. It takes about 10 CPU-minutes.
func BuildCertManager(ctx context.Context, progress io.Writer) (CertManager, error) {
	c, err := FindCertManager()
	if !errors.Is(err, ErrNoCertManager) {
		return c, err
	}
	source, err := sourceFolder()
	if err != nil {
		return c, err
	}
	m := module{dir: "certmanager"}
	if err := m.build(ctx, progress, source, c.Controller, certManagerModule+"/cmd/controller"); err != nil {
		return c, fmt.Errorf("build the controller of cert-manager: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", certManagerModule)
	cmd.Dir = filepath.Join(source, m.dir)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	from, err := cmd.Output()
	if err != nil {
		return c, fmt.Errorf("find the CRDs of cert-manager: %w", err)
	}
	return c, c.copyCRDs(filepath.Join(strings.TrimSpace(string(from)), "deploy", "crds"))
}

// copyCRDs copies the CRDs from a module, without the labels that are templates of Helm.
func (c CertManager) copyCRDs(from string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("%s has no CRDs: %w", from, err)
	}
	unfinished := c.CRDs + ".new"
	if err := os.MkdirAll(unfinished, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var plain []byte
		for line := range bytes.Lines(text) {
			if !bytes.Contains(line, []byte("{{")) {
				plain = append(plain, line...)
			}
		}
		if err := os.WriteFile(filepath.Join(unfinished, filepath.Base(file)), plain, 0o644); err != nil {
			return err
		}
	}
	return os.Rename(unfinished, c.CRDs)
}
