package etcd_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/causalstore/causalstore/controllers/etcd"
	"github.com/causalstore/causalstore/e2e/etcdserver"
	"github.com/causalstore/causalstore/lab/ports"
)

// cluster is an etcd of real processes, configured as in pods, but for its ports and folders.
type cluster struct {
	t         *testing.T
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
	process *etcdserver.Process
}

// newCluster prepares an etcd of n members.
func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	// Tests set the clock forward, and certificates must not be of a time that the processes have not reached.
	c := &cluster{t: t, dir: t.TempDir(), now: time.Now().Add(-4 * time.Hour), client: map[string][]byte{}}
	var err error
	if c.authority, err = etcd.NewAuthority("test", "region-1", c.now); err != nil {
		t.Fatal(err)
	}
	c.cluster = etcd.Cluster{Config: etcd.NewConfig("test")}
	for i := range n {
		port := func() string {
			return strings.Replace("https://"+ports.ForTest(t), "127.0.0.1", "localhost", 1)
		}
		m := &member{Member: etcd.Member{Name: fmt.Sprintf("etcd-%d", i), PeerURL: port(), ClientURL: port()},
			http: "http://" + ports.ForTest(t)}
		c.cluster.Members, c.members = append(c.cluster.Members, m.Member), append(c.members, m)
		m.process = etcdserver.NewProcess(t, "--config-file="+filepath.Join(c.folder(i, "run"), etcd.ConfigFile))
	}
	c.renew()
	return c
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
	c.members[i].process.Start()
}

func (c *cluster) stop(i int) { c.members[i].process.Kill() }

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
		client := c.connect(c.client, c.members[i].ClientURL)
		c.await("member "+c.members[i].Name, func(ctx context.Context) error {
			_, err := client.Get(ctx, "x")
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
			c.t.Fatalf("%s: %v", what, err)
		}
	}
}
