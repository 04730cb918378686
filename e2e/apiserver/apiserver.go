// Package apiserver runs a real kube-apiserver, with its etcd, for tests: what the API server says about a manifest, about
// server-side apply and about pod security is said by itself.
//
// There are no kubelets, controllers or scheduler: nothing happens to an object unless a test does it.
package apiserver

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"github.com/causalstore/causalstore/e2e/binaries"
)

// Server is a running API server.
type Server struct {
	dir             string
	host, token     string
	etcd, apiserver *process
}

// startTimeout bounds each step of a start; on a busy machine it takes some 10 s in all.
const startTimeout = 90 * time.Second

// Start runs an API server until Stop. It keeps nothing. If there are no binaries the error is binaries.ErrNone.
func Start(ctx context.Context) (*Server, error) {
	b, err := binaries.Find(ctx, "etcd", "kube-apiserver")
	if err != nil {
		return nil, err
	}
	s := &Server{}
	if s.dir, err = os.MkdirTemp("", "causalstore-apiserver-"); err == nil {
		err = s.start(ctx, b)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start kube-apiserver: %w", err), s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, b binaries.Folder) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	etcd := "http://127.0.0.1:" + ports[0]
	peer := "http://127.0.0.1:" + ports[1]
	s.etcd, err = run(b, "etcd", filepath.Join(s.dir, "etcd.log"), "--data-dir", filepath.Join(s.dir, "etcd"),
		"--listen-client-urls", etcd,
		"--advertise-client-urls", etcd, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", "default="+peer, "--unsafe-no-fsync", "--log-level", "warn")
	if err != nil {
		return err
	}
	key, tokens, err := s.credentials()
	if err != nil {
		return err
	}
	s.host = "https://127.0.0.1:" + ports[2]
	s.apiserver, err = run(b, "kube-apiserver", filepath.Join(s.dir, "apiserver.log"), "--etcd-servers", etcd,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port", ports[2], "--cert-dir", filepath.Join(s.dir, "tls"),
		"--service-cluster-ip-range=10.0.0.0/16", "--token-auth-file", tokens, "--authorization-mode=RBAC", "--profiling=false",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--disable-admission-plugins=ServiceAccount", "--allow-privileged=true")
	if err != nil {
		return err
	}
	return s.awaitReady(ctx)
}

// Config is for clients that may do everything.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host: s.host, BearerToken: s.token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(s.dir, "tls", "apiserver.crt")},
	}
}

// Stop ends the server, and removes what it kept.
func (s *Server) Stop() error {
	s.apiserver.stop()
	s.etcd.stop()
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// credentials makes a key for service accounts, and a token of a cluster admin.
func (s *Server) credentials() (keyFile, tokenFile string, err error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", "", err
	}
	token := make([]byte, 16)
	if _, err := rand.Read(token); err != nil {
		return "", "", err
	}
	s.token = hex.EncodeToString(token)
	keyFile, tokenFile = filepath.Join(s.dir, "sa.key"), filepath.Join(s.dir, "tokens.csv")
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return keyFile, tokenFile, errors.Join(os.WriteFile(keyFile, block, 0o600),
		os.WriteFile(tokenFile, []byte(s.token+",admin,admin,system:masters\n"), 0o600))
}

// awaitReady asks until the server says that it is ready.
func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for last := errors.New("it was not asked"); ; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w (last answer: %w)\n%s", ctx.Err(), last, s.apiserver.tail())
		case <-s.apiserver.done:
			return fmt.Errorf("kube-apiserver has ended\n%s", s.apiserver.tail())
		case <-s.etcd.done:
			return fmt.Errorf("etcd has ended\n%s", s.etcd.tail())
		case <-again.C:
			if last = s.ready(ctx); last == nil {
				return nil
			}
		}
	}
}

func (s *Server) ready(ctx context.Context) error {
	client, err := rest.HTTPClientFor(s.Config()) // anew each time: the certificate comes with the server
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.host+"/readyz", nil)
	if err != nil {
		return err
	}
	a, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = a.Body.Close() }()
	if a.StatusCode != http.StatusOK {
		return errors.New(a.Status)
	}
	return nil
}

// freePorts returns ports that nobody listens on now. Another process may take one before it is used; then the start fails.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }()
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}
