package verify

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/front"
	"github.com/causalstore/causalstore/sidecar/front/resp"
)

// secrets is a client that reads Secrets by name.
type secrets map[string]map[string][]byte

func (s secrets) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	data, ok := s[key.Name]
	if !ok {
		return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
	}
	o.(*corev1.Secret).Data = data
	return nil
}

func (s secrets) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("the operator may not list Secrets")
}

// nothing is a Backend without a store: PING needs none.
type nothing struct{}

func (nothing) NewSession() (front.Session, error) { return nil, errors.New("no store") }

// newCertificate returns a certificate that signs itself, as a Secret has it.
func newCertificate(t *testing.T) map[string][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"redis.example.com"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{corev1.TLSCertKey: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})}
}

func TestTheCheckConnectsAsAUserWithTLS(t *testing.T) {
	certificate, dir := newCertificate(t), t.TempDir()
	for name, b := range certificate {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server, err := resp.NewServer(resp.Options{Backend: nothing{}, Logger: slog.New(slog.DiscardHandler),
		Users: []contract.User{
			{Name: "app", Passwords: []contract.PasswordHash{contract.HashPassword([]byte("secret"))}},
		}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Shutdown(context.Background()) }()
	files := front.TLSFiles{Field: "redisTLS", Cert: filepath.Join(dir, corev1.TLSCertKey),
		Key: filepath.Join(dir, corev1.TLSPrivateKeyKey)}
	go func() { _ = server.ServeTLS(l, front.NewCertificates(files, slog.New(slog.DiscardHandler))) }()

	digest := "#" + strings.Repeat("0", 64)
	all := secrets{"people": {"aaa": []byte(digest), "app": []byte(digest + "\nsecret\n")}, "certificate": certificate}
	i := &Installation{Client: all, Store: types.NamespacedName{Namespace: "shop", Name: "orders"},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != "orders.shop.svc:6380" {
				t.Errorf("it connects to %s", address)
			}
			return (&net.Dialer{}).DialContext(ctx, network, l.Addr().String())
		}}
	store := &v1alpha1.CausalStore{}
	store.Spec.Clients = v1alpha1.Clients{UsersSecret: "people",
		Front: v1alpha1.Front{TLS: &v1alpha1.FrontTLS{SecretName: "certificate"}}}
	ping := func() error {
		how, err := i.access(t.Context(), store)
		if err != nil {
			return err
		}
		s := i.connect(how, "orders")
		defer s.close()
		return s.conn.Ping(t.Context()).Err()
	}
	if err := ping(); err != nil {
		t.Error(err)
	}
	all["certificate"] = newCertificate(t)
	if err := ping(); err == nil || !strings.Contains(err.Error(), "another certificate than the Secret") {
		t.Errorf("another certificate: %v", err)
	}
	all["people"] = map[string][]byte{"app": []byte(digest)}
	if err := ping(); err == nil || !strings.Contains(err.Error(), "only digests") {
		t.Errorf("digests: %v", err)
	}
}

func TestWhatTheCheckCannotUseIsSaid(t *testing.T) {
	off := false
	for want, c := range map[string]v1alpha1.Clients{
		"": {
			Front: v1alpha1.Front{TLS: &v1alpha1.FrontTLS{SecretName: "a", ClientCASecretName: "b", Plaintext: true}},
		},
		"its front is off": {Front: v1alpha1.Front{Enabled: &off}},
		"fronts ask clients for certificates": {
			Front: v1alpha1.Front{TLS: &v1alpha1.FrontTLS{SecretName: "a", ClientCASecretName: "b"}},
		},
	} {
		if got := unchecked(&c); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
