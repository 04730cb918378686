package processes_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/trust/acceptance"
)

// dataCenterRegions are the regions of these tests.
var dataCenterRegions = map[string]string{"a": "eu", "b": "eu", "c": "us"}

// rootOf reads the certificate of an authority.
func rootOf(t *testing.T, authority string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(authority, "authority.crt"))
	must(t, err)
	block, _ := pem.Decode(text)
	root, err := x509.ParseCertificate(block.Bytes)
	must(t, err)
	return root
}

// waits returns what keeps an authority from issuing in the region of data centers a and b, as their operator finds it.
func (d *deployment) waits(root *x509.Certificate) ([]string, error) {
	reports := map[string]contract.Readiness{}
	for _, dc := range []string{"a", "b"} {
		for _, part := range []string{"coordinator", "middleman", "cache"} {
			r, err := d.procs[dc+"-"+part].readiness()
			if err != nil {
				return nil, err
			}
			reports[dc+"-"+part] = r
		}
	}
	return acceptance.Waits(root, dataCenterRegions, reports, nil), nil
}

func (d *deployment) awaitWaits(root *x509.Certificate, want ...string) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("parts to wait for %q", want), func() error {
		is, err := d.waits(root)
		if err == nil && !slices.Equal(is, want) {
			err = fmt.Errorf("%s", strings.Join(is, "; "))
		}
		return err
	})
}

// TestANewAuthorityIssuesWhenALateRegionAcceptsIt follows a rotation in which the other region takes the bundle late,
// under load.
func TestANewAuthorityIssuesWhenALateRegionAcceptsIt(t *testing.T) {
	certs := newCertificates(t)
	before, after, us := certs.authority("before", "eu"), certs.authority("after", "eu"), certs.authority("us", "us")
	for _, dc := range []string{"a", "b"} {
		certs.issueDC(before, dc)
	}
	certs.issueDC(us, "c")
	give := func(dc string, eu ...string) {
		certs.trustIn(dc, map[string][]string{"a": eu, "b": eu, "c": {us}})
	}
	for _, dc := range []string{"a", "b", "c"} {
		give(dc, before)
	}
	d := deployWith(t, certs, waitLong)
	var done atomic.Uint64
	for _, dc := range []string{"a", "b"} {
		defer d.traffic(dc, &done)()
	}
	stopC := d.traffic("c", &done)
	progress := func() { d.awaitProgress(&done) }
	progress()
	d.awaitWaits(rootOf(t, before))
	root := rootOf(t, after)
	const a, b, c = "data center a of region eu does not accept it yet", "data center b of region eu does not " +
		"accept it yet", "data center c of region us does not accept it yet"
	d.awaitWaits(root, a, b, c)
	give("a", before, after)
	d.awaitWaits(root, b, c)
	give("b", before, after)
	d.awaitWaits(root, c)
	progress()

	// The other region is away: what it has said is not what it may say when it is back. Only its own clients notice.
	stopC()
	for _, part := range parts[:3] {
		d.kill("c-" + part)
	}
	give("c", before, after)
	eventually(t, "the data center that is away to be waited for", func() error {
		if is, err := d.waits(root); err != nil || len(is) != 1 || !strings.Contains(is[0], "data center c") {
			return fmt.Errorf("%q, %w", is, err)
		}
		return nil
	})
	for _, part := range parts[:3] {
		d.restart("c-" + part)
	}
	defer d.traffic("c", &done)()
	d.awaitWaits(root)
	progress()

	for _, dc := range []string{"a", "b"} {
		certs.issueDC(after, dc)
	}
	for name, p := range d.procs {
		if name[0] == 'c' {
			continue
		}
		eventually(t, name+" to use its new certificate", func() error {
			b, err := os.ReadFile(p.log)
			if n := strings.Count(string(b), `"loaded new TLS files"`); err == nil && n < 2 {
				err = fmt.Errorf("%d times", n)
			}
			return err
		})
	}
	progress()
	for _, dc := range []string{"a", "b", "c"} {
		give(dc, after)
	}
	d.awaitWaits(root)
	eventually(t, "the old authority to be dropped everywhere", func() error {
		if is, err := d.waits(rootOf(t, before)); err != nil || len(is) != 3 {
			return fmt.Errorf("%q, %w", is, err)
		}
		return nil
	})
	progress()
	d.checkViolations()
	t.Logf("%d operations", done.Load())
}

// TestPartsHearThatAnotherRegionRefusesAnAuthorityThatWasMadeAnew: their links go on with the certificates of before,
// and are all that is left. It shows as soon as the authority issues, and no more once the other region has its bundle.
func TestPartsHearThatAnotherRegionRefusesAnAuthorityThatWasMadeAnew(t *testing.T) {
	certs := newCertificates(t)
	lost, anew, us := certs.authority("lost", "eu"), certs.authority("anew", "eu"), certs.authority("us", "us")
	own := []string{"a", "b"}
	for _, dc := range own {
		certs.issueDC(lost, dc)
	}
	certs.issueDC(us, "c")
	give := func(dc, eu string) {
		certs.trustIn(dc, map[string][]string{"a": {eu}, "b": {eu}, "c": {us}})
	}
	for _, dc := range []string{"a", "b", "c"} {
		give(dc, lost)
	}
	d := deployWith(t, certs, waitLong)
	d.awaitRefusals(rootOf(t, lost))
	for _, dc := range own {
		give(dc, anew)
		certs.issueDC(anew, dc)
	}
	d.awaitRefusals(rootOf(t, anew), "data center c of region us")
	d.awaitPeer("a", "c", contract.PeerConnected) // nothing else shows it
	d.awaitRefusals(rootOf(t, anew), "data center c of region us")
	give("c", anew)
	d.awaitRefusals(rootOf(t, anew))
	for _, dc := range own {
		d.awaitPeer(dc, "c", contract.PeerConnected)
	}
}

// awaitRefusals waits until the first coordinators of data centers a and b have heard who refuses the authority that
// issues in their region.
func (d *deployment) awaitRefusals(root *x509.Certificate, want ...string) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("an authority to be refused by %q", want), func() error {
		reports := map[string]contract.Readiness{}
		for _, pod := range []string{"a-coordinator", "b-coordinator"} {
			r, err := d.procs[pod].readiness()
			if err != nil {
				return err
			}
			reports[pod] = r
		}
		if is := acceptance.RefusedBy(root, "eu", dataCenterRegions, reports); !slices.Equal(is, want) {
			return fmt.Errorf("%q", is)
		}
		return nil
	})
}
