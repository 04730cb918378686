// Package apiserver gives the tests of a package one real kube-apiserver with its etcd, started by envtest. Validation
// rules, server-side apply and pod security are then those of a real cluster.
//
// No kubelet, controller or scheduler runs: objects change only when a test changes them.
package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/causalstore/causalstore/e2e/binaries"
)

// startTimeout bounds each step of the start, which takes about 10 s in all on a busy machine. It is generous for
// machines that leave these processes only what others do not use.
const startTimeout = 4 * time.Minute

var shared struct {
	once   sync.Once
	server *server
	err    error

	installing sync.Mutex // envtest does not expect another process to create the same CRD
	installed  map[string]bool
}

// ForTest returns a client configuration with all rights for the API server that the tests of a package share. If the
// binaries are not installed, it skips the test. The package's TestMain must call Main.
func ForTest(t testing.TB) *rest.Config {
	t.Helper()
	return rest.CopyConfig(sharedServer(t).config)
}

// Kubeconfig writes a kubeconfig for the shared API server and returns its path.
func Kubeconfig(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, sharedServer(t).kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// InstallCRDs installs the CRDs of a directory in the shared API server, unless that was done before, and waits until
// it serves them.
func InstallCRDs(t testing.TB, dir string) {
	t.Helper()
	config := ForTest(t)
	shared.installing.Lock()
	defer shared.installing.Unlock()
	if shared.installed[dir] {
		return // to install a CRD again makes the API server compile its rules again
	}
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: []string{dir}, ErrorIfPathMissing: true,
		MaxTime: startTimeout})
	if err != nil {
		t.Fatal(err)
	}
	if shared.installed == nil {
		shared.installed = map[string]bool{}
	}
	shared.installed[dir] = true
}

// RemoveCRDs removes the CRDs of a directory from the shared API server, and waits until they are gone.
func RemoveCRDs(t testing.TB, dir string) {
	t.Helper()
	config := ForTest(t)
	shared.installing.Lock()
	defer shared.installing.Unlock()
	delete(shared.installed, dir)
	o := envtest.CRDInstallOptions{Paths: []string{dir}, ErrorIfPathMissing: true}
	err := envtest.ReadCRDFiles(&o)
	if err == nil {
		err = envtest.UninstallCRDs(config, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range o.CRDs {
		deadline := time.Now().Add(startTimeout)
		for !apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd)) {
			if time.Now().After(deadline) {
				t.Fatalf("the CRD %s is still there", crd.Name)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func sharedServer(t testing.TB) *server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = start(context.Background()) })
	if errors.Is(shared.err, binaries.ErrNone) {
		t.Skip(shared.err)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// Main runs the tests of a package and stops the API server that they started.
func Main(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop kube-apiserver:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// server is a running API server.
type server struct {
	dir        string // launchers and logs
	plane      envtest.ControlPlane
	config     *rest.Config
	kubeconfig []byte
}

// start starts an API server. If the binaries are not installed, the error is binaries.ErrNone.
func start(ctx context.Context) (*server, error) {
	programs, err := binaries.Find(ctx, "etcd", "kube-apiserver")
	if err != nil {
		return nil, err
	}
	s := &server{}
	if s.dir, err = os.MkdirTemp("", "causalstore-apiserver-"); err != nil {
		return nil, err
	}
	if err := s.run(ctx, programs); err != nil {
		err = fmt.Errorf("start kube-apiserver: %w\nkube-apiserver: %s\netcd: %s", err, s.logTail("kube-apiserver"),
			s.logTail("etcd"))
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// run starts etcd and the API server. envtest.Environment would give the API server 5 s for its first namespaces, which
// is too little on a busy machine.
func (s *server) run(ctx context.Context, programs binaries.Folder) error {
	etcd, api := &envtest.Etcd{StartTimeout: startTimeout}, s.plane.GetAPIServer()
	s.plane.Etcd, api.StartTimeout = etcd, startTimeout
	var logs [2]*os.File
	for i, p := range []struct {
		name string
		path *string
	}{{"etcd", &etcd.Path}, {"kube-apiserver", &api.Path}} {
		program, err := programs.Path(p.name)
		if err != nil {
			return err
		}
		if *p.path, err = writeLauncher(s.dir, p.name, program); err != nil {
			return err
		}
		if logs[i], err = os.Create(s.log(p.name)); err != nil {
			return err
		}
		defer func() { _ = logs[i].Close() }() // the process has its own descriptor
	}
	etcd.Out, etcd.Err, api.Out, api.Err = logs[0], logs[0], logs[1], logs[1]
	if err := s.startPlane(); err != nil {
		return err
	}
	// unlimited
	admin, err := s.plane.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}},
		&rest.Config{QPS: -1})
	if err != nil {
		return err
	}
	s.config = admin.Config()
	if s.kubeconfig, err = admin.KubeConfig(); err != nil {
		return err
	}
	return s.awaitNamespaces(ctx)
}

// startPlane starts the programs. Another process may take the ports that were chosen for them; then others are tried.
func (s *server) startPlane() (err error) {
	for range 5 {
		if err = s.plane.Start(); err == nil {
			return nil
		}
	}
	return err
}

// awaitNamespaces waits until the API server has created those that tests expect.
func (s *server) awaitNamespaces(ctx context.Context) error {
	c, err := client.New(s.config, client.Options{})
	if err != nil {
		return err
	}
	for _, name := range []string{"default", "kube-system"} {
		var missing error
		if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true,
			func(ctx context.Context) (bool, error) {
				missing = c.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
				return missing == nil, nil
			}); err != nil {
			return fmt.Errorf("wait for the namespace %s for %s: %w", name, startTimeout, errors.Join(err, missing))
		}
	}
	return nil
}

func (s *server) stop() error { return errors.Join(s.plane.Stop(), os.RemoveAll(s.dir)) }

func (s *server) log(name string) string { return filepath.Join(s.dir, name+".log") }

func (s *server) logTail(name string) []byte {
	const limit = 3000
	b, err := os.ReadFile(s.log(name))
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(b[max(0, len(b)-limit):])
}
