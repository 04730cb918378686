package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/causalstore/causalstore/e2e/binaries"
)

var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// ForTest returns a configuration for the one API server that all tests of a package share. Where there are no binaries the
// test is skipped. The package's TestMain must be Main.
func ForTest(t testing.TB) *rest.Config {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = Start(context.Background()) })
	if errors.Is(shared.err, binaries.ErrNone) {
		t.Skip(shared.err)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server.Config()
}

// Main runs the tests of a package, and stops the API server that they have started.
func Main(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop kube-apiserver:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}
