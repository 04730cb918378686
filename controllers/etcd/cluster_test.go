package etcd_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/causalstore/causalstore/controllers/etcd"
)

// handshake connects to a port with TLS, and asks for /health: in TLS 1.3 a server refuses a certificate after the
// client's handshake.
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
	if len(again) != 3 || again["etcd-0"] == ids["etcd-0"] || again["etcd-1"] != ids["etcd-1"] ||
		again["etcd-2"] != ids["etcd-2"] {
		t.Errorf("the members were %v, and are %v: the one without data must have another id, and only that one",
			ids, again)
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

// TestANewAuthorityTakesOverWhileTheEtcdServes restarts one member at a time, and asks for a quorum at every moment
// between.
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
