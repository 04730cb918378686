package kubectl

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/controllers/inject"
)

// unpack returns the files of an archive by name.
func unpack(t *testing.T, archive io.Reader) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(b)
	}
}

func TestABundleIsBoundedAndListsWhatItLacks(t *testing.T) {
	const limit = 8 << 20
	var out bytes.Buffer
	b := newBundle(&out, limit, time.Unix(0, 0))
	b.add("first", []byte("1"))
	b.add("long", append(bytes.Repeat([]byte("x"), maxBundleFile), "end"...))
	for range 5 {
		b.add("more", bytes.Repeat([]byte("y"), maxBundleFile-10))
	}
	b.add("small", []byte("2"))
	b.fail("logs", errors.New("no route to host"))
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, z); err != nil || n > limit {
		t.Errorf("the archive has %d bytes, more than %d (%v)", n, limit, err)
	}
	files := unpack(t, &out)
	if files["first"] != "1" || files["small"] != "2" || !strings.HasSuffix(files["long"], "xend") ||
		len(files["long"]) != maxBundleFile {
		t.Errorf("files: %v, and long has %d bytes", slices.Sorted(maps.Keys(files)), len(files["long"]))
	}
	for _, want := range []string{"long: the first 3 bytes are left out", "more: 4194294 bytes do not fit",
		"logs: no route to host"} {
		if !strings.Contains(files["errors.txt"], want) {
			t.Errorf("errors.txt lacks %q:\n%s", want, files["errors.txt"])
		}
	}
}

const secret = "hunter2-is-a-secret"

// testSupportBundle runs the command against a real API server, where no pod runs: logs and metrics cannot be had, and
// are listed.
func (h *testCluster) testSupportBundle(t *testing.T) {
	h.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders-keys"},
		StringData: map[string]string{"storage-password": secret}})
	app := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web",
		Labels: map[string]string{inject.LabelStore: "orders"},
		Annotations: map[string]string{inject.AnnotationInjected: "orders/virginia", lastApplied: secret,
			"note": secret}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: inject.Container, Image: "causalstore:v1",
				Env: []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: secret}}}},
			Containers: []corev1.Container{{Name: "app", Image: "app",
				Env: []corev1.EnvVar{{Name: "PASSWORD", Value: secret}}, Args: []string{secret}}}}}
	h.create(app)
	for _, line := range [][]string{{"--max-size", "1k"}, {"--log-lines", "0"}} {
		h.expectError(line[0], append([]string{"support-bundle", "orders"}, line...)...)
	}
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	h.expectOutput("see errors.txt in it", "support-bundle", "orders", "--output", file)
	h.expectError("create the archive", "support-bundle", "orders", "--output", file)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the archive may be read by others: %v (%v)", info.Mode(), err)
	}
	archive, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	files := unpack(t, archive)
	for name, want := range map[string]string{
		"store.yaml": "kind: CausalStore", "status.txt": "shop/orders:", "doctor.txt": "operator:",
		"store/pods.yaml":       "orders-virginia-cc-0",
		"store/configmaps.yaml": "causalstore.yaml", "nodes.yaml": "node-us-a", "apps/pods.yaml": inject.Container,
		"errors.txt": "processes/shop/orders-virginia-cc-0-7480.metrics", "events.yaml": "EventList",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %q:\n%.2000s", name, want, files[name])
		}
	}
	for name, text := range files {
		if strings.Contains(text, secret) || strings.Contains(text, "kind: Secret\n") {
			t.Errorf("%s has a secret", name)
		}
	}
}
