package etcd_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
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

// handshake connects to a port with TLS, and asks for /health: in TLS 1.3 a server refuses a certificate after the client's handshake.
func handshake(t *testing.T, url string, config *tls.Config) error {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get(url + "/health")
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

func TestAnEtcdAdmitsOnlyItsMembersAndTheirClients(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.startAll()
	clients, peers := c.members[0].ClientURL, c.members[0].PeerURL
	foreign, err := etcd.NewAuthority("another", "region-1", c.now)
	if err != nil {
		t.Fatal(err)
	}
	other, _, _, err := foreign.Renew(nil, etcd.ClientCertificates(), c.now)
	if err != nil {
		t.Fatal(err)
	}
	older := c.tls(c.client)
	older.MinVersion, older.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	own := c.files()
	asPeer := c.tls(map[string][]byte{"tls.crt": own["peer.crt"], "tls.key": own["peer.key"]})
	for _, try := range []struct {
		who, url string
		config   *tls.Config
		refused  bool
	}{
		{"a coordinator at the port of clients", clients, c.tls(c.client), false},
		{"nobody at the port of clients", clients, c.tls(nil), true},
		{"a coordinator of another data center at the port of clients", clients, c.tls(other), true},
		{"a coordinator with TLS 1.2", clients, older, true},
		{"a member at the port of members", peers, asPeer, false},
		{"a coordinator at the port of members", peers, c.tls(c.client), true},
		{"nobody at the port of members", peers, c.tls(nil), true},
	} {
		if err := handshake(t, try.url, try.config); (err != nil) != try.refused {
			t.Errorf("%s: %v", try.who, err)
		}
	}
}

// TestProbesTellAMemberWithoutAQuorumFromOneThatHangs: it is not ready, and must not be restarted.
func TestProbesTellAMemberWithoutAQuorumFromOneThatHangs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	probe := func(path string) error { // as the kubelet does
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.members[0].http+path, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			err = errors.New(answer.Status)
		}
		return errors.Join(err, answer.Body.Close())
	}
	answers := func(path string, want bool) {
		t.Helper()
		c.await(fmt.Sprintf("success %v of %s", want, path), func(context.Context) error {
			if err := probe(path); (err == nil) != want {
				return errors.Join(errors.New("the answer is another one"), err)
			}
			return nil
		})
	}
	c.startAll()
	answers("/readyz", true)
	answers("/livez", true)
	answers("/metrics", true)
	c.stop(1)
	answers("/readyz", true)
	c.stop(2)
	answers("/readyz", false)
	answers("/livez", true)
	c.start(1)
	answers("/readyz", true)
}

func TestAMemberThatHasLostItsDataJoinsAnew(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.startAll()
	client := c.connect(c.client, c.members[1].ClientURL)
	c.await("write", func(ctx context.Context) error { _, err := client.Put(ctx, "group", "epoch 7"); return err })
	ids := c.ids(client)

	c.stop(0)
	if err := os.RemoveAll(c.folder(0, "data")); err != nil {
		t.Fatal(err)
	}
	c.start(0)
	c.awaitAll()
	again := c.ids(client)
	if len(again) != 3 || again["etcd-0"] == ids["etcd-0"] || again["etcd-1"] != ids["etcd-1"] || again["etcd-2"] != ids["etcd-2"] {
		t.Errorf("the members were %v, and are %v: the one without data must have another id, and only that one", ids, again)
	}

	// It counts: without another one there is a quorum, which has what was written.
	c.stop(2)
	joined := c.connect(c.client, c.members[0].ClientURL)
	c.await("read without the third member", func(ctx context.Context) error {
		got, err := joined.Get(ctx, "group")
		if err != nil {
			return err
		}
		if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "epoch 7" {
			t.Fatalf("after a member was replaced, the value is %v", got.Kvs)
		}
		return nil
	})
}

func (c *cluster) ids(client *clientv3.Client) map[string]uint64 {
	c.t.Helper()
	all := map[string]uint64{}
	c.await("list the members", func(ctx context.Context) error {
		list, err := client.MemberList(ctx)
		if err != nil {
			return err
		}
		clear(all)
		for _, m := range list.Members {
			all[m.Name] = m.ID
		}
		return nil
	})
	return all
}

func TestAMemberThatHasLostItsDataDoesNotFoundTheClusterAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	for i := range c.members {
		if err := c.prepare(i); err != nil {
			t.Errorf("%s of an etcd that has never served: %v", c.members[i].Name, err)
		}
	}
	c.cluster.Founded = true
	if err := c.prepare(0); err == nil || !strings.Contains(err.Error(), "joins again once the others serve") {
		t.Errorf("no other member answers: %v", err)
	}
	c.cluster.Members = c.cluster.Members[:1]
	if err := c.prepare(0); err == nil || !strings.Contains(err.Error(), "is lost") {
		t.Errorf("there is no other member: %v", err)
	}
}

// TestANewAuthorityTakesOverWhileTheEtcdServes restarts one member at a time, and asks for a quorum at every moment between.
func TestANewAuthorityTakesOverWhileTheEtcdServes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.startAll()
	rollOut := func() {
		t.Helper()
		for i := range c.members {
			c.restart(i)
			c.awaitAll()
		}
	}
	advance := func(accepted bool) {
		t.Helper()
		if changed, err := c.authority.Advance("test", "region-2", accepted, c.now); err != nil || !changed {
			t.Fatalf("the authority does not advance: %v", err)
		}
	}
	before := maps.Clone(c.client)
	advance(false)
	c.renew()
	c.awaitAll()
	if changed, err := c.authority.Advance("test", "region-2", false, c.now); changed || err != nil {
		t.Errorf("the new root issues before all members accept it (%v)", err)
	}

	// Members read their bundle at a start only, which is why the operator restarts them.
	ahead := *c.authority
	c.now = c.now.Add(time.Hour)
	if _, err := ahead.Advance("test", "region-2", true, c.now); err != nil {
		t.Fatal(err)
	}
	signed, _, _, err := ahead.Renew(nil, etcd.ClientCertificates(), c.now)
	if err != nil {
		t.Fatal(err)
	}
	if err := handshake(t, c.members[0].ClientURL, c.tls(signed)); err == nil {
		t.Error("a member accepts a root that it has not read: the restarts are not needed any more")
	}
	rollOut()
	if err := handshake(t, c.members[0].ClientURL, c.tls(signed)); err != nil {
		t.Errorf("a member does not accept the next root after its restart: %v", err)
	}

	advance(true) // the new root issues
	c.renew()
	c.awaitAll()
	if bytes.Equal(before["tls.crt"], c.client["tls.crt"]) {
		t.Error("the clients have no new certificate")
	}
	c.now = c.now.Add(2 * time.Hour)
	advance(true) // the old root retires
	if c.authority.IsReplaced() {
		t.Error("the replacement does not end")
	}
	c.renew()
	rollOut()
	if err := handshake(t, c.members[0].ClientURL, c.tls(before)); err == nil {
		t.Error("a certificate of the root before is still accepted")
	}
}
