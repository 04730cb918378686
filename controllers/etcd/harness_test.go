package etcd_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/causalstore/causalstore/controllers/etcd"
	"github.com/causalstore/causalstore/e2e/binaries"
)

// cluster is an etcd of real processes, configured as in pods, but for its ports and folders.
type cluster struct {
	t         *testing.T
	program   string
	dir       string
	authority *etcd.Authority
	now       time.Time
	cluster   etcd.Cluster
	client    map[string][]byte // the Secret of clients
	members   []*member
}

type member struct {
	etcd.Member
	http    string // health and metrics
	process *exec.Cmd
	log     *lockedBuffer
	ended   chan struct{}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.b.Bytes()
	return string(b[max(0, len(b)-2000):])
}

// newCluster prepares an etcd of n members.
func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	folder, err := binaries.Find(t.Context(), "etcd")
	if errors.Is(err, binaries.ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	// Tests set the clock forward, and certificates must not be of a time that the processes have not reached.
	c := &cluster{t: t, dir: t.TempDir(), now: time.Now().Add(-4 * time.Hour), client: map[string][]byte{}}
	if c.program, err = folder.Path("etcd"); err != nil {
		t.Fatal(err)
	}
	if c.authority, err = etcd.NewAuthority("test", "region-1", c.now); err != nil {
		t.Fatal(err)
	}
	c.cluster = etcd.Cluster{Config: etcd.NewConfig("test")}
	for i := range n {
		port := func() string { return fmt.Sprintf("https://localhost:%d", freePort(t)) }
		m := etcd.Member{Name: fmt.Sprintf("etcd-%d", i), PeerURL: port(), ClientURL: port()}
		c.cluster.Members = append(c.cluster.Members, m)
		c.members = append(c.members, &member{Member: m, http: fmt.Sprintf("http://127.0.0.1:%d", freePort(t))})
	}
	c.renew()
	t.Cleanup(func() {
		for i := range c.members {
			c.stop(i)
		}
	})
	return c
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func (c *cluster) folder(i int, name string) string {
	return filepath.Join(c.dir, c.members[i].Name, name)
}

// renew writes the certificates of all, as the kubelets of their nodes would.
func (c *cluster) renew() {
	c.t.Helper()
	files, _, _, err := c.authority.Renew(c.files(), etcd.MemberCertificates([]string{"localhost"}), c.now)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range c.members {
		for _, folder := range []string{"tls", "run"} {
			if err := os.MkdirAll(c.folder(i, folder), 0o700); err != nil {
				c.t.Fatal(err)
			}
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(c.folder(i, "tls"), name), text, 0o600); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	if c.client, _, _, err = c.authority.Renew(c.client, etcd.ClientCertificates(), c.now); err != nil {
		c.t.Fatal(err)
	}
}

// files returns the present Secret of members.
func (c *cluster) files() map[string][]byte {
	files := map[string][]byte{}
	paths, _ := filepath.Glob(filepath.Join(c.folder(0, "tls"), "*"))
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			c.t.Fatal(err)
		}
		files[filepath.Base(path)] = b
	}
	return files
}

// local returns what the operator would tell a member, with the folders and ports of this test.
func (c *cluster) local(i int) *etcd.Cluster {
	local, m := c.cluster, c.members[i]
	config := &local.Config
	config.DataDir = c.folder(i, "data")
	config.ListenPeerURLs, config.ListenClientURLs = onLoopback(m.PeerURL), onLoopback(m.ClientURL)
	config.ListenMetricsURLs = m.http
	for _, files := range []*etcd.Certificates{&config.Clients, &config.Peers} {
		for _, file := range []*string{&files.Cert, &files.Key, &files.ClientCert, &files.ClientKey, &files.TrustedCA} {
			*file = strings.Replace(*file, etcd.CertificateDir, c.folder(i, "tls"), 1)
		}
	}
	return &local
}

func onLoopback(url string) string { return strings.Replace(url, "localhost", "127.0.0.1", 1) }

func (c *cluster) prepare(i int) error {
	return etcd.Prepare(c.t.Context(), c.local(i), c.members[i].Name, c.folder(i, "run"))
}

func (c *cluster) start(i int) {
	c.t.Helper()
	if err := c.prepare(i); err != nil {
		c.t.Fatal(err)
	}
	m := c.members[i]
	m.log, m.ended = &lockedBuffer{}, make(chan struct{})
	m.process = exec.Command(c.program, "--config-file="+filepath.Join(c.folder(i, "run"), etcd.ConfigFile))
	m.process.Stdout, m.process.Stderr = m.log, m.log
	if err := m.process.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() { _ = m.process.Wait(); close(m.ended) }() // how it ends does not matter
}

func (c *cluster) stop(i int) {
	m := c.members[i]
	if m.process == nil {
		return
	}
	_ = m.process.Process.Kill() // it may have ended
	<-m.ended
	m.process = nil
}

func (c *cluster) restart(i int) {
	c.t.Helper()
	c.stop(i)
	c.start(i)
}

// startAll founds the cluster and waits until all members serve.
func (c *cluster) startAll() {
	c.t.Helper()
	for i := range c.members {
		c.start(i)
	}
	c.awaitAll()
	c.cluster.Founded = true
}

func (c *cluster) awaitAll() {
	c.t.Helper()
	for i := range c.members {
		c.await("member "+c.members[i].Name, func(ctx context.Context) error {
			_, err := c.connect(c.client, c.members[i].ClientURL).Get(ctx, "x")
			return err
		})
	}
}

// connect returns a client with the files of a Secret.
func (c *cluster) connect(secret map[string][]byte, urls ...string) *clientv3.Client {
	c.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: urls, TLS: c.tls(secret)})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

func (c *cluster) tls(secret map[string][]byte) *tls.Config {
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13}
	config.RootCAs.AppendCertsFromPEM(c.client[etcd.BundleFile])
	if pair, err := tls.X509KeyPair(secret["tls.crt"], secret["tls.key"]); err == nil {
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

const waitLimit = 2 * time.Minute

// await retries until do succeeds.
func (c *cluster) await(what string, do func(context.Context) error) {
	c.t.Helper()
	for deadline := time.Now().Add(waitLimit); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
		err := do(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			for _, m := range c.members {
				if m.log != nil {
					c.t.Logf("%s: %s", m.Name, m.log.tail())
				}
			}
			c.t.Fatalf("%s: %v", what, err)
		}
	}
}
