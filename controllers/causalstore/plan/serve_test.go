package plan_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/trust"
	"github.com/causalstore/causalstore/lab/ports"
	"github.com/causalstore/causalstore/sidecar/command"
)

// The test runs the program of every planned container with its arguments and its mounted files; only host names, ports
// and folders are replaced by some of this machine. A Redis client then writes and reads through the front.
func TestThePlannedContainersServeARedisClient(t *testing.T) {
	in := observed(t, "one.yaml", "local")
	by, err := authority.NewAuthority(in.Trust.Domains["local"], time.Now())
	if err != nil {
		t.Fatal(err)
	}
	in.Trust.Bundles[by.TrustDomain()] = string(by.CertificatePEM())
	p := planned(t, in)
	certificates, err := plan.Certificates(in, p.Record)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	front := ports.ForTest(t)
	replace := []string{"/etc/causalstore-keys", filepath.Join(dir, "keys"), "/etc/causalstore-tls",
		filepath.Join(dir, "tls"), "/etc/causalstore", filepath.Join(dir, "config"),
		"$(POD_INDEX)", "0",
		fmt.Sprintf("--listen-http=:%d", plan.PortHTTP), "--listen-http=127.0.0.1:0",
		fmt.Sprintf("--listen-http=:%d", plan.PortFrontHTTP), "--listen-http=127.0.0.1:0",
		fmt.Sprintf("--listen-redis=:%d", plan.PortRedis), "--listen-redis=" + front}
	var sets []*appsv1.StatefulSet
	for _, o := range p.Apply {
		if s, ok := o.(*appsv1.StatefulSet); ok {
			sets = append(sets, s)
			replace = append(replace, fmt.Sprintf("%s-0.%s.%s.svc:%d", s.Name, s.Spec.ServiceName, s.Namespace,
				plan.PortParts),
				ports.ForTest(t))
		}
	}
	here := strings.NewReplacer(replace...)
	keys := named[*corev1.Secret](t, p, plan.KeysName("try"))
	for name, value := range keys.Data {
		put(t, filepath.Join(dir, "keys", name), value)
	}
	ctx, cancel := context.WithCancel(t.Context())
	running := 0
	ended := make(chan error, 8)
	for _, s := range sets {
		// Each pod has its own folder /data and its own certificates, so each has its own copy of the configuration.
		own := strings.NewReplacer(filepath.Join(dir, "config"), filepath.Join(dir, s.Name, "config"),
			filepath.Join(dir, "tls"), filepath.Join(dir, s.Name, "tls"))
		mounted := 0
		for _, v := range s.Spec.Template.Spec.Volumes {
			for _, c := range certificates {
				if v.Secret == nil || v.Secret.SecretName != c.Secret.Name {
					continue
				}
				files, _, err := trust.StateOf(trust.OwnRoot(by)).Renew(t.Context(), nil, c.Identities, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				mounted++
				for name, value := range files {
					put(t, filepath.Join(dir, s.Name, "tls", name), value)
				}
			}
		}
		if want := len(s.Spec.Template.Spec.Containers); mounted != want {
			t.Errorf("the pods of %s mount %d Secrets with certificates, want one for each of %d containers", s.Name,
				mounted, want)
		}
		for name, text := range named[*corev1.ConfigMap](t, p, "try-here").Data {
			text = strings.ReplaceAll(own.Replace(here.Replace(text)), "/data", filepath.Join(dir, s.Name, "data"))
			put(t, filepath.Join(dir, s.Name, "config", name), []byte(text))
		}
		for _, c := range s.Spec.Template.Spec.Containers {
			var args []string
			for _, a := range c.Args {
				args = append(args, own.Replace(here.Replace(a)))
			}
			root := command.NewRoot()
			root.SetArgs(append(args, "--log-level=error"))
			running++
			go func() { ended <- root.ExecuteContext(ctx) }()
		}
	}
	if running != 4 {
		t.Errorf("%d containers were planned, want 4: coordinator, front, cache, middleman", running)
	}
	client := redis.NewClient(&redis.Options{Addr: front})
	defer func() { _ = client.Close() }()
	await(t, func() (string, error) { return client.Set(ctx, "k", "v", 0).Result() })
	if v, err := client.Get(ctx, "k").Result(); err != nil || v != "v" {
		t.Errorf("GET k: %q (%v)", v, err)
	}
	// A coordinator that stops waits until its writes are in every ring, and all parts stop at once here.
	if n, err := client.Do(ctx, "CAUSAL", "WAIT", "all", "20000").Int(); err != nil || n != 1 {
		t.Errorf("the write is not in every ring: %d (%v)", n, err)
	}
	cancel()
	for range running {
		if err := <-ended; err != nil {
			t.Errorf("a container ended: %v", err)
		}
	}
}

func put(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
