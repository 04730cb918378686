package apiserver

import (
	"errors"
	"testing"

	"github.com/causalstore/causalstore/e2e/binaries"
)

// CertManager returns the program of cert-manager's controller. If it is not in the cache, it skips the test.
func CertManager(t testing.TB) string {
	t.Helper()
	found, err := binaries.FindCertManager()
	if errors.Is(err, binaries.ErrNoCertManager) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return found.Controller
}

// InstallCertManagerCRDs installs the CRDs of cert-manager, or those in a directory if cert-manager is not in the
// cache.
func InstallCertManagerCRDs(t testing.TB, otherwise string) {
	t.Helper()
	if found, err := binaries.FindCertManager(); err == nil {
		otherwise = found.CRDs
	}
	InstallCRDs(t, otherwise)
}
