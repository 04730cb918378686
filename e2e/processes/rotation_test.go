package processes_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// traffic writes and reads in a data center until stop, and counts operations. No operation may fail.
func (d *deployment) traffic(dc string, done *atomic.Uint64) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	client := d.client(dc)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			<-tick.C
			key, value := fmt.Sprintf("rotation:%s:%d", dc, i%50), fmt.Sprint(i)
			if err := client.Set(context.Background(), key, value, 0).Err(); err != nil {
				d.t.Errorf("SET in %s: %v", dc, err)
				return
			}
			if got, err := client.Get(context.Background(), key).Result(); err != nil || got != value {
				d.t.Errorf("GET in %s: %q, %v; want %q", dc, got, err, value)
				return
			}
			done.Add(2)
		}
	})
	return func() { cancel(); wg.Wait() }
}

// awaitInLogs waits until every process has logged a text so many times.
func (d *deployment) awaitInLogs(text string, times int) {
	d.t.Helper()
	for _, p := range d.procs {
		eventually(d.t, fmt.Sprintf("%s to log %q", p.name, text), func() error {
			b, err := os.ReadFile(p.log)
			if n := bytes.Count(b, []byte(text)); err == nil && n < times {
				err = fmt.Errorf("%d times", n)
			}
			return err
		})
	}
}

// checkViolations fails for each violation that was counted.
func (d *deployment) checkViolations() {
	d.t.Helper()
	for _, p := range d.procs {
		_, page, err := p.get("/metrics")
		must(d.t, err)
		for line := range bytes.Lines(page) {
			if bytes.HasPrefix(line, []byte("causalstore_transport_violations_total{")) &&
				!bytes.HasSuffix(line, []byte(" 0\n")) {
				d.t.Errorf("%s: %s", p.name, line)
			}
		}
	}
}

// awaitProgress waits until 200 more operations are done.
func (d *deployment) awaitProgress(done *atomic.Uint64) {
	d.t.Helper()
	from := done.Load()
	eventually(d.t, "operations to go on", func() error {
		if n := done.Load(); n < from+200 && !d.t.Failed() {
			return fmt.Errorf("%d operations since then", n-from)
		}
		return nil
	})
}

func TestCertificatesAndTheAuthorityAreReplacedUnderLoad(t *testing.T) {
	certs := newCertificates(t)
	before, after := certs.authority("before", "eu.example.com"), certs.authority("after", "eu.example.com")
	certs.issueAll(before)
	certs.trust(before)
	d := deployWith(t, certs, waitLong)
	var done atomic.Uint64
	for _, dc := range []string{"a", "c"} {
		defer d.traffic(dc, &done)()
	}
	progress := func() { d.awaitProgress(&done) }
	progress()
	loaded := `"loaded new TLS files"`
	certs.trust(before, after)
	d.awaitInLogs(loaded, 1)
	progress()
	certs.issueAll(after)
	d.awaitInLogs(loaded, 2)
	progress()
	certs.trust(after)
	d.awaitInLogs(loaded, 3)
	progress()
	d.checkViolations()

	// Somebody with a certificate of the old authority is refused, counted, and logged once.
	old := certs.issue(before, "stranger", "sidecar", "shop")
	cert, err := tls.LoadX509KeyPair(old+".crt", old+".key")
	must(t, err)
	p := d.procs["a-coordinator"]
	for range 3 {
		conn, err := tls.Dial("tcp", d.config.Addresses["a"].Coordinators[0],
			&tls.Config{Certificates: []tls.Certificate{cert}, InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err == nil { // the server refuses after the client has finished the handshake
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
		}
		if err == nil {
			t.Error("a certificate of the old authority is accepted")
		}
	}
	eventually(t, "the refusals to be counted", func() error {
		if n, ok := p.metric(
			`causalstore_transport_violations_total{data_center="a",index="0",kind="certificate"`); !ok || n < 3 {
			return fmt.Errorf("%v", n)
		}
		return nil
	})
	b, err := os.ReadFile(p.log)
	must(t, err)
	if n := bytes.Count(b, []byte("link refused: the peer must not do this")); n != 1 {
		t.Errorf("the refusals are logged %d times", n)
	}
	t.Logf("%d operations", done.Load())
}
