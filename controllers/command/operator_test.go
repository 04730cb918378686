package command

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/e2e/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

func TestTheOperatorCommandCarriesOutAStoreAndEndsInGoodOrder(t *testing.T) {
	config := apiserver.ForTest(t)
	if err := apiserver.InstallCRDs(t.Context(), config, filepath.Join("..", "..", "config", "crd", "bases")); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := apiserver.WriteKubeconfig(kubeconfig, config); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	health := l.Addr().String()
	_ = l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	cmd := NewOperatorCommand()
	cmd.SetArgs([]string{"--region=local", "--image=causalstore:test", "--health-address=" + health, "--metrics-address=0",
		"--leader-namespace=default", "--log-level=error"})
	go func() { ended <- cmd.ExecuteContext(ctx) }()

	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	sample, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "one-data-center.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	store := &v1alpha1.CausalStore{}
	if err := yaml.UnmarshalStrict(sample, store); err != nil {
		t.Fatal(err)
	}
	store.Namespace = "default"
	// A resource is served a moment after its definition is there.
	await(t, ended, func() error { return client.IgnoreAlreadyExists(c.Create(t.Context(), store)) })
	service := &corev1.Service{}
	await(t, ended, func() error {
		return c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "try"}, service)
	})
	if zone, err := sameZone(config); err != nil || service.Spec.TrafficDistribution == nil || *service.Spec.TrafficDistribution != zone {
		t.Errorf("the Service is told %v, want %s (%v)", service.Spec.TrafficDistribution, zone, err)
	}
	await(t, ended, func() error {
		a, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return err
		}
		defer func() { _ = a.Body.Close() }()
		if a.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz: %s", a.Status)
		}
		return nil
	})
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the operator ended: %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(store), store); err != nil || len(store.Finalizers) != 1 {
		t.Errorf("the store has finalizers %v (%v)", store.Finalizers, err)
	}
}

// await waits until f does not fail, or the operator ends.
func await(t *testing.T, ended <-chan error, f func() error) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		err := f()
		if err == nil {
			return
		}
		select {
		case end := <-ended:
			t.Fatalf("the operator ended: %v", end)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
