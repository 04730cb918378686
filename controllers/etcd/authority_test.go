package etcd_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/controllers/etcd"
)

// TestAnAuthorityIsReadAsItWasWritten, at every step of its replacement.
func TestAnAuthorityIsReadAsItWasWritten(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a, err := etcd.NewAuthority("test", "region-1", now)
	if err != nil {
		t.Fatal(err)
	}
	for step, roots := range []int{1, 2, 2, 1} {
		if step > 0 {
			now = now.Add(2 * time.Hour)
			if changed, err := a.Advance("test", "region-2", true, now); !changed || err != nil {
				t.Fatalf("step %d: changed %v: %v", step, changed, err)
			}
		}
		if n := strings.Count(string(a.Bundle()), "BEGIN"); n != roots {
			t.Errorf("step %d: %d roots are accepted, want %d", step, n, roots)
		}
		again, err := etcd.ReadAuthority(a.Files())
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if again.Digest() != a.Digest() || len(again.Files()) != len(a.Files()) {
			t.Errorf("step %d: it is another one", step)
		}
		for name, text := range a.Files() {
			if !bytes.Equal(again.Files()[name], text) {
				t.Errorf("step %d: %s differs", step, name)
			}
		}
		a = again
	}
	if changed, err := a.Advance("test", "region-2", true, now.Add(time.Hour)); changed || err != nil {
		t.Errorf("the authority is replaced although that of the region is the same (%v)", err)
	}
}

func TestCertificatesAreRenewedWhenTheyAreDue(t *testing.T) {
	now := time.Now()
	a, err := etcd.NewAuthority("test", "region-1", now)
	if err != nil {
		t.Fatal(err)
	}
	wanted := etcd.MemberCertificates([]string{"etcd-0.example.com"})
	files, changed, expires, err := a.Renew(nil, wanted, now)
	if err != nil || !changed || len(files) != 5 || expires.Before(now.Add(6*24*time.Hour)) {
		t.Fatalf("%d files, changed %v, until %s: %v", len(files), changed, expires, err)
	}
	renews := func(wanted []etcd.Certificate, files map[string][]byte, at time.Time) bool {
		t.Helper()
		_, changed, _, err := a.Renew(files, wanted, at)
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	damaged := map[string][]byte{}
	for name, text := range files {
		damaged[name] = text
	}
	damaged["peer.key"] = []byte("?")
	for what, c := range map[string]struct {
		is, want bool
	}{
		"an hour later":     {renews(wanted, files, now.Add(time.Hour)), false},
		"a day later":       {renews(wanted, files, now.Add(25*time.Hour)), true},
		"for another host":  {renews(etcd.MemberCertificates([]string{"etcd-1.example.com"}), files, now), true},
		"with a bad key":    {renews(wanted, damaged, now), true},
		"with one too many": {renews(etcd.ClientCertificates(), files, now), true},
	} {
		if c.is != c.want {
			t.Errorf("%s: renewed %v", what, c.is)
		}
	}
}
