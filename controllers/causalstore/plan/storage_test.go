package plan_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/redis"
)

// The test runs the program of the planned container with its arguments, and opens it as a middleman does: with the
// planned password and all checks.
func TestAMiddlemanCanUseThePlannedRedis(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed; apt-get install redis-server")
	}
	p := planned(t, observed(t, "regions.yaml", "us-east"))
	server := named[*appsv1.StatefulSet](t, p, "orders-us-east-1-shard-0").Spec.Template.Spec.Containers[1]
	keys := named[*corev1.Secret](t, p, plan.KeysName("orders"))
	dir, err := os.MkdirTemp("", "redis-") // short: the path of a socket is limited to about a hundred bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "users.acl"), keys.Data["users.acl"], 0o600); err != nil {
		t.Fatal(err)
	}
	places := strings.NewReplacer("/etc/causalstore-keys", dir, "/run/storage", dir, "/data", dir)
	var args []string
	for _, a := range server.Args {
		args = append(args, places.Replace(a))
	}
	stop := startRedis(t, dir, server.Command[0], args)
	o := redis.Options{Socket: filepath.Join(dir, "redis.sock"), Username: "causalstore",
		Password: string(keys.Data["storage-password"])}
	store := await(t, func() (*redis.Store, error) { return redis.Open(t.Context(), o) })
	if err := store.SetMeta(t.Context(), "identity", []byte("x")); err != nil {
		t.Errorf("the middleman's user cannot write: %v", err)
	}
	// Several writes are one transaction.
	record := causal.Record{Version: causal.Version{HLC: 1, Origin: 1}, Value: causal.Value{Data: []byte("v")}}
	writes := []storage.Write{{Key: "a", Record: record}, {Key: "b", Record: record}}
	if err := store.Apply(t.Context(), writes); err != nil {
		t.Fatal(err)
	}
	_ = store.Close()
	stop()
	startRedis(t, dir, server.Command[0], args)
	again := await(t, func() (*redis.Store, error) { return redis.Open(t.Context(), o) })
	defer func() { _ = again.Close() }()
	for _, w := range writes {
		if _, found, err := again.Get(t.Context(), w.Key); err != nil || !found {
			t.Errorf("%s is gone after a restart of the storage (%v)", w.Key, err)
		}
	}
	o.Password = "wrong"
	if s, err := redis.Open(t.Context(), o); err == nil {
		_ = s.Close()
		t.Error("a wrong password opens the storage")
	}
}

// startRedis runs a server until the test ends, or stop is called.
func startRedis(t *testing.T, dir, program string, args []string) (stop func()) {
	server := exec.Command(program, args...)
	server.Dir = dir
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() { _ = server.Process.Kill(); _ = server.Wait() })
	t.Cleanup(stop)
	return stop
}

// await calls f until it succeeds.
func await[T any](t *testing.T, f func() (T, error)) T {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		v, err := f()
		if err == nil {
			return v
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
