package processes_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/credentials"
	"github.com/causalstore/causalstore/lab/ports"
)

// peakMiB returns the greatest resident memory of a process since forgetPeak.
func (p *proc) peakMiB(t *testing.T) (mib int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	must(t, err)
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	if _, err := fmt.Sscan(rest, &mib); err != nil {
		t.Fatal(err)
	}
	return mib >> 10
}

func (p *proc) forgetPeak(t *testing.T) {
	t.Helper()
	must(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0))
}

// attackHandshakes makes 600 connections, 150 at a time, with the largest certificate message that crypto/tls accepts:
// 255 KB.
func attackHandshakes(t *testing.T, addr string, cert *tls.Certificate, protocols ...string) {
	t.Helper()
	var attackers sync.WaitGroup
	for range 150 {
		attackers.Go(func() {
			for range 4 {
				c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols,
					GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
						return cert,
							nil
					}})
				if err != nil {
					continue // it was closed while it sent
				}
				_ = c.SetReadDeadline(time.Now().Add(patience))
				if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("it is not refused: %v", err)
				}
				c.Close()
			}
		})
	}
	attackers.Wait()
}

// Who has no certificate takes no memory, and cuts no links.
func TestHandshakesOfStrangersTakeABoundedAmountOfMemory(t *testing.T) {
	const limitMiB = 150 // by itself a process takes 60; GOMEMLIMIT bounds nothing that is in use
	certs := newCertificates(t)
	ca := certs.authority("eu", "eu.example.com")
	certs.issueAll(ca)
	certs.trust(ca)
	d := planDeployment(t, certs, waitLong)
	clients := redisTLS{t.TempDir()}
	clients.renew(t)
	secure := d.listenTLS(clients, "--redis-tls-client-ca", filepath.Join(clients.dir, "ca.crt"))
	for _, p := range d.procs {
		p.env = []string{"GOMEMLIMIT=512MiB"}
	}
	d.startAll()
	client := d.client("a")
	must(t, client.Set(t.Context(), "x", "before", 0).Err())
	awaitValue(t, "c", d.client("c"), "x", "before")
	largest := credentials.Named(t, 82_000)
	for _, victim := range []struct {
		name, addr string
		protocols  []string
	}{
		{"a-coordinator", d.config.Addresses["a"].Coordinators[0], []string{"h2"}},
		{"a-middleman", d.config.Addresses["a"].Middlemen[0], []string{"h2"}},
		{"a-sidecar", secure, nil},
	} {
		p := d.procs[victim.name]
		p.forgetPeak(t)
		before, _ := p.metric("causalstore_transport_links_opened_total")
		attackHandshakes(t, victim.addr, largest, victim.protocols...)
		peak := p.peakMiB(t)
		t.Logf("%s: at most %d MiB", victim.name, peak)
		if peak > limitMiB {
			t.Errorf("%s: it took %d MiB", victim.name, peak)
		}
		if after, _ := p.metric("causalstore_transport_links_opened_total"); after != before {
			t.Errorf("%s: %v links were cut, and opened again", victim.name, after-before)
		}
		must(t, client.Set(t.Context(), "x", victim.name, 0).Err())
		awaitValue(t, "c", d.client("c"), "x", victim.name)
	}
	for _, name := range []string{"a-coordinator", "a-middleman"} {
		_, text, err := d.procs[name].get("/metrics")
		must(t, err)
		if !regexp.MustCompile(`(?m)^causalstore_transport_violations_total\{.*kind="limit".*\} 600$`).Match(text) {
			t.Errorf("%s: not 600 violations are counted", name)
		}
	}
}

// listenTLS gives the sidecar of data center a a second port before it starts, and returns its address.
func (d *deployment) listenTLS(f redisTLS, more ...string) string {
	d.t.Helper()
	p, addr := d.procs["a-sidecar"], ports.ForTest(d.t)
	p.args = append(p.args, "--listen-redis-tls", addr, "--redis-tls-cert", f.path("tls.crt"), "--redis-tls-key",
		f.path("tls.key"))
	p.args = append(p.args, more...)
	return addr
}
