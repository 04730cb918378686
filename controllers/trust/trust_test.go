package trust

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/contract"
)

var (
	today = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	day   = 24 * time.Hour
	part  = contract.Identity{TrustDomain: "eu.1", StoreID: "7d1e", DataCenter: "paris", Role: contract.RoleCoordinator,
		Member: "0"}
)

func create(t *testing.T, domain string) Authorities {
	t.Helper()
	a, err := Create(domain, today)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func advance(t *testing.T, a Authorities, request string, accepted bool, now time.Time) (Authorities, bool) {
	t.Helper()
	next, changed, err := a.Advance(request, accepted, now)
	if err != nil {
		t.Fatal(err)
	}
	// Whatever happens must survive being written and read.
	files, err := next.Files()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Read(files)
	if err != nil {
		t.Fatal(err)
	}
	if back.Bundle() != next.Bundle() || back.Sequence != next.Sequence ||
		!back.NextSince.Equal(next.NextSince.Truncate(time.Second)) {
		t.Errorf("read back %+v, want %+v", back, next)
	}
	return back, changed
}

func renewed(t *testing.T, files map[string][]byte, wanted map[string]contract.Identity, by *Root,
	now time.Time) (map[string][]byte, bool) {
	t.Helper()
	out, changed, err := StateOf(by).Renew(t.Context(), files, wanted, now)
	if err != nil {
		t.Fatal(err)
	}
	return out, changed
}

// verify checks a certificate as a peer does that has a bundle.
func verify(t *testing.T, bundle string, files map[string][]byte, name string, now time.Time) error {
	t.Helper()
	pair, err := tls.X509KeyPair(files[CertFile(name)], files[KeyFile(name)])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bundle))
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err
}

func TestCertificatesAreRenewedEveryDayAndOutliveTheOperatorBySixDays(t *testing.T) {
	a, wanted := create(t, part.TrustDomain), map[string]contract.Identity{"0": part}
	files, changed := renewed(t, nil, wanted, a.Issuing, today)
	if !changed || len(files) != 2 {
		t.Fatalf("%d files, changed %t", len(files), changed)
	}
	if at := Expires(files, wanted); !at.Equal(today.Add(7 * day)) {
		t.Errorf("expires at %s", at)
	}
	if err := verify(t, a.Bundle(), files, "0", today.Add(-9*time.Minute)); err != nil {
		t.Errorf("for a machine whose clock is 9 minutes late: %v", err)
	}
	if same, changed := renewed(t, files, wanted, a.Issuing, today.Add(day-time.Minute)); changed ||
		!maps.EqualFunc(same, files, slices.Equal) {
		t.Error("renewed before it is a day old")
	}
	next, changed := renewed(t, files, wanted, a.Issuing, today.Add(day))
	if !changed || slices.Equal(next["0.crt"], files["0.crt"]) || slices.Equal(next["0.key"], files["0.key"]) {
		t.Error("not renewed with a new key after a day")
	}
	if err := verify(t, a.Bundle(), files, "0", today.Add(7*day-time.Minute)); err != nil {
		t.Errorf("without an operator, after almost seven days: %v", err)
	}
	if err := verify(t, a.Bundle(), files, "0", today.Add(7*day+time.Minute)); err == nil {
		t.Error("it is valid for longer than seven days")
	}
}

func TestCertificatesAreReplacedIfTheyAreNotWhatIsWanted(t *testing.T) {
	a, wanted := create(t, part.TrustDomain), map[string]contract.Identity{"0": part}
	files, _ := renewed(t, nil, wanted, a.Issuing, today)
	other := part
	other.StoreID = "another"
	damaged := maps.Clone(files)
	damaged["0.key"] = []byte("damaged")
	for what, c := range map[string]struct {
		files  map[string][]byte
		wanted map[string]contract.Identity
		by     *Root
		now    time.Time
	}{
		"the key is damaged":             {damaged, wanted, a.Issuing, today},
		"the store has another id":       {files, map[string]contract.Identity{"0": other}, a.Issuing, today},
		"another authority issues":       {files, wanted, create(t, part.TrustDomain).Issuing, today},
		"it is not valid yet":            {files, wanted, a.Issuing, today.Add(-time.Hour)},
		"one more part needs one":        {files, map[string]contract.Identity{"0": part, "1": part}, a.Issuing, today},
		"the part that had one has gone": {files, nil, a.Issuing, today},
	} {
		got, changed := renewed(t, c.files, c.wanted, c.by, c.now)
		if !changed || len(got) != 2*len(c.wanted) || Expires(got, c.wanted).IsZero() && len(c.wanted) > 0 {
			t.Errorf("%s: changed %t, %d files", what, changed, len(got))
		}
	}
}

func TestCertificatesStayWhenTheyCannotBeRenewed(t *testing.T) {
	a, wanted := create(t, part.TrustDomain), map[string]contract.Identity{"0": part}
	files, _ := renewed(t, nil, wanted, a.Issuing, today)
	lost := &State{signer: noSigner{"the Secret is gone"}}
	got, changed, err := lost.Renew(t.Context(), files, wanted, today.Add(2*day))
	if err == nil || changed || !maps.EqualFunc(got, files, slices.Equal) {
		t.Errorf("changed %t: %v", changed, err)
	}
	if _, _, err := lost.Renew(t.Context(), nil, wanted, today); err == nil || !Expires(nil, wanted).IsZero() {
		t.Errorf("without authority and certificate: %v", err)
	}
	if _, _, err := StateOf(a.Issuing).Renew(t.Context(), files, wanted,
		a.Issuing.Certificate().NotAfter.Add(day)); err == nil || !strings.Contains(err.Error(), "make a new one") {
		t.Errorf("by an authority that has expired: %v", err)
	}
}

func TestASequenceAlsoGrowsIfTheSecretIsMadeAgain(t *testing.T) {
	a := create(t, part.TrustDomain)
	later, err := Create(part.TrustDomain, today.Add(day))
	if err != nil || later.Sequence <= a.Sequence {
		t.Errorf("%d after %d (%v)", later.Sequence, a.Sequence, err)
	}
}

func entry(t *testing.T, region, domain string, sequence int64) Entry {
	t.Helper()
	return Entry{Region: region, TrustDomain: domain, Sequence: sequence, Bundle: create(t, domain).Bundle()}
}

func revoked(domain string) Entry { return Entry{TrustDomain: domain, Revoked: true} }

func TestBundlesDoNotGoBackAndTombstonesStay(t *testing.T) {
	one, two := entry(t, "us", "us.1", 5), entry(t, "us", "us.1", 6)
	record, refused := Accept("eu", "eu.1", nil, []Entry{one}, today)
	if len(refused) > 0 || record["us.1"].Sequence != 5 || !record["us.1"].Since.Equal(today) {
		t.Fatalf("%v %v", record, refused)
	}
	record, refused = Accept("eu", "eu.1", record, []Entry{two}, today.Add(day))
	if len(refused) > 0 || record["us.1"].Bundle != two.Bundle {
		t.Fatalf("a newer bundle is not accepted: %v", refused)
	}
	if _, refused := Accept("eu", "eu.1", record, []Entry{two}, today.Add(2*day)); len(refused) > 0 {
		t.Errorf("what is known is refused: %v", refused)
	}
	for what, p := range map[string]Entry{"an older one": one,
		"another one of the same sequence": entry(t, "us", "us.1", 6)} {
		next, refused := Accept("eu", "eu.1", record, []Entry{p}, today.Add(2*day))
		if len(refused) != 1 || next["us.1"].Bundle != two.Bundle {
			t.Errorf("%s: %v", what, refused)
		}
	}
	if next, _ := Accept("eu", "eu.1", record, nil, today); next["us.1"].Bundle != two.Bundle {
		t.Error("a bundle is forgotten with its ConfigMap")
	}
	gone, refused := Accept("eu", "eu.1", record, []Entry{two, revoked("us.1")}, today.Add(3*day))
	if len(refused) > 0 || !gone["us.1"].Revoked || gone["us.1"].Bundle != "" || gone["us.1"].Region != "us" {
		t.Errorf("the tombstone: %v %v", gone, refused)
	}
	back, refused := Accept("eu", "eu.1", gone, []Entry{entry(t, "us", "us.1", 9)}, today.Add(4*day))
	if len(refused) > 0 || !back["us.1"].Revoked {
		t.Errorf("what was revoked is trusted again: %v", back)
	}
	// The region has a new authority.
	anew, refused := Accept("eu", "eu.1", gone, []Entry{entry(t, "us", "us.2", 1)}, today.Add(4*day))
	if len(refused) > 0 || anew["us.2"].Bundle == "" || !anew["us.1"].Revoked {
		t.Errorf("%v %v", anew, refused)
	}
	if d := cmp.Diff(anew, readBack(t, anew)); d != "" {
		t.Errorf("the record is read back differently:\n%s", d)
	}
}

func readBack(t *testing.T, record map[string]Entry) map[string]Entry {
	t.Helper()
	back, damaged := ReadRecord(WriteRecord(record, nil))
	if len(damaged) > 0 {
		t.Fatalf("damaged: %v", damaged)
	}
	return back
}

func TestDamagedEntriesOfTheRecordStayAndHideNoOthers(t *testing.T) {
	record, _ := Accept("eu", "eu.1", nil, []Entry{entry(t, "us", "us.1", 5), revoked("asia.1")}, today)
	data := WriteRecord(record, nil)
	data["junk"], data["af.1"] = "garbage",
		`{"region":"af","trustDomain":"af.1","sequence":3,"bundle":"no certificate"}`
	data["sa.1"] = data["us.1"] // of another domain
	back, damaged := ReadRecord(data)
	if d := cmp.Diff(record, back); d != "" || len(damaged) != 3 {
		t.Errorf("damaged: %v; %s", damaged, d)
	}
	if d := cmp.Diff(data, WriteRecord(back, damaged)); d != "" {
		t.Errorf("writing it again loses something:\n%s", d)
	}
}

func TestARegionHasOneTrustDomain(t *testing.T) {
	record, _ := Accept("eu", "eu.1", nil, []Entry{entry(t, "us", "us.1", 5)}, today)
	for what, c := range map[string]struct {
		p    Entry
		says string
	}{
		"a second one of a region":           {entry(t, "us", "us.2", 9), "revoke that one first"},
		"one that moves to another region":   {entry(t, "asia", "us.1", 9), "cannot become that of asia"},
		"another one of the own region":      {entry(t, "eu", "eu.2", 9), "which is this operator's"},
		"a tombstone for the own region":     {revoked("eu.1"), "cannot be revoked here"},
		"the own one, said to be of another": {entry(t, "us", "eu.1", 9), ""},
	} {
		next, refused := Accept("eu", "eu.1", record, []Entry{c.p}, today)
		if (c.says == "") != (len(refused) == 0) || c.says != "" && !strings.Contains(refused[0], c.says) ||
			!cmp.Equal(next, record) {
			t.Errorf("%s: %q; record changed: %t", what, refused, !cmp.Equal(next, record))
		}
	}
}

func TestMalformedConfigMapsAreRefusedWithTheField(t *testing.T) {
	good := entry(t, "us", "us.1", 5)
	if e, err := ReadEntry(&corev1.ConfigMap{Data: good.Data()}); err != nil || !cmp.Equal(e, good) {
		t.Errorf("%v: %v", e, err)
	}
	if e, err := ReadEntry(
		&corev1.ConfigMap{Data: map[string]string{"trustDomain": "us.1", "revoked": "true"}}); err != nil ||
		!e.Revoked {
		t.Errorf("the shortest tombstone: %v", err)
	}
	a := create(t, "us.1")
	key, err := a.Issuing.own.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	leaf, _ := renewed(t, nil,
		map[string]contract.Identity{"x": {TrustDomain: "us.1", StoreID: "s", DataCenter: "d", Role: contract.RoleCache,
			Member: "0"}}, a.Issuing, today)
	for says, change := range map[string]func(map[string]string){
		"ConfigMap peer: region: it is empty": func(d map[string]string) { delete(d, "region") },
		"trustDomain: the trust domain":       func(d map[string]string) { d["trustDomain"] = "US" },
		`sequence: "many"`:                    func(d map[string]string) { d["sequence"] = "many" },
		`revoked: "yes"; use "true"`:          func(d map[string]string) { d["revoked"] = "yes" },
		"bundle.pem: it has no certificate":   func(d map[string]string) { d["bundle.pem"] = "" },
		`never keys`:                          func(d map[string]string) { d["bundle.pem"] += string(key) },
		"restricted to trust domain us.2":     func(d map[string]string) { d["trustDomain"] = "us.2" },
		"is not an authority that is restricted": func(d map[string]string) {
			d["bundle.pem"] = string(leaf["x.crt"])
		},
		"bundle.pem: it has more than 4": func(d map[string]string) {
			d["bundle.pem"] = strings.Repeat(d["bundle.pem"], 5)
		},
		"bundle.pem: it has more than 16384 bytes": func(d map[string]string) {
			d["bundle.pem"] = strings.Repeat("x", 20000)
		},
	} {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "peer"}, Data: good.Data()}
		change(m.Data)
		if _, err := ReadEntry(m); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}
