package trust

import (
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
)

func TestARotationReplacesTheAuthorityWithoutAMomentInWhichACertificateIsNotTrusted(t *testing.T) {
	a, wanted := create(t, part.TrustDomain), map[string]contract.Identity{"0": part}
	files, _ := renewed(t, nil, wanted, a.Issuing, today)
	first := Fingerprint(a.Issuing.Certificate())
	for _, request := range []string{"", RotationRequest(RotateBegin, "of another"),
		RotationRequest(RotateForce, first), "nonsense"} {
		if _, changed := advance(t, a, request, true, today); changed {
			t.Errorf("the request %q changes something", request)
		}
	}
	both, changed := advance(t, a, RotationRequest(RotateBegin, first), true, today.Add(time.Hour))
	if !changed || both.Next == nil || both.Sequence <= a.Sequence || Fingerprint(both.Issuing.Certificate()) != first {
		t.Fatalf("begun: %+v", both)
	}
	if again, changed := advance(t, both, RotationRequest(RotateBegin, first), false, today.Add(30*day)); changed ||
		again.Bundle() != both.Bundle() {
		t.Error("a request that is still there begins again, or time alone activates")
	}
	next := Fingerprint(both.Next.Certificate())
	at := both.NextSince.Add(time.Second)
	if forced, changed := advance(t, both, RotationRequest(RotateForce, next), false, at); !changed ||
		Fingerprint(forced.Issuing.Certificate()) != next {
		t.Error("a forced rotation waits")
	}
	active, changed := advance(t, both, RotationRequest(RotateBegin, first), true, at)
	if !changed || Fingerprint(active.Issuing.Certificate()) != next || len(active.Retired) != 1 ||
		!active.IssuingSince.Equal(at) {
		t.Fatalf("activated: %+v", active)
	}
	new, changed := renewed(t, files, wanted, active.Issuing, at)
	if !changed {
		t.Error("certificates of the old authority are not replaced")
	}
	for what, bundle := range map[string]string{"before": both.Bundle(), "after": active.Bundle()} {
		for which, f := range map[string]map[string][]byte{"old": files, "new": new} {
			if err := verify(t, bundle, f, "0", at); err != nil {
				t.Errorf("%s the switch the %s certificate is not trusted: %v", what, which, err)
			}
		}
	}
	if _, changed := advance(t, active, RotationRequest(RotateBegin, first), true, at.Add(7*day)); changed {
		t.Error("the old authority is dropped while its certificates are valid, or a request is carried out twice")
	}
	last, changed := advance(t, active, "", true, at.Add(9*day))
	if !changed || last.Bundle() != string(active.Issuing.CertificatePEM()) || last.Sequence <= both.Sequence {
		t.Errorf("the old authority is not dropped: %d authorities", strings.Count(last.Bundle(), "BEGIN"))
	}
}

// TestEdgesChangeLater: an edge does not say what it accepts.
func TestEdgesChangeLater(t *testing.T) {
	edge := part
	edge.Role = contract.RoleEdge
	wanted := map[string]contract.Identity{"0": edge}
	before := create(t, part.TrustDomain)
	files, _ := renewed(t, nil, wanted, before.Issuing, today)
	both, _ := advance(t, before, RotationRequest(RotateBegin, Fingerprint(before.Issuing.Certificate())), false,
		today.Add(23*time.Hour+55*time.Minute))
	active, _ := advance(t, both, "", true, today.Add(23*time.Hour+55*time.Minute))
	s := StateOf(active.Issuing)
	s.IssuingSince, s.Retired = active.IssuingSince, active.Retired
	for minutes, want := range map[int]bool{0: false, 9: false, 10: true} { // it is a day old after five
		if _, changed, err := s.Renew(t.Context(), files, wanted,
			active.IssuingSince.Add(time.Duration(minutes)*time.Minute)); changed != want || err != nil {
			t.Errorf("after %d minutes it is replaced: %t, %v", minutes, changed, err)
		}
	}
	if _, changed, err := s.Renew(t.Context(), nil, wanted, active.IssuingSince); !changed || err != nil {
		t.Errorf("a new edge gets a certificate: %t, %v", changed, err)
	}
}

// issuers returns an authority whose key is elsewhere.
func issuers(t *testing.T) *Root {
	t.Helper()
	return &Root{cert: create(t, part.TrustDomain).Issuing.Certificate()}
}

func propose(t *testing.T, a Authorities, root *Root, now time.Time) Authorities {
	t.Helper()
	next, _, err := a.Propose(root, now)
	if err != nil {
		t.Fatal(err)
	}
	same, _ := advance(t, next, "", false, now) // written and read
	return same
}

func TestTheCAOfAnIssuerIsUsedOnceItIsAccepted(t *testing.T) {
	one, two, three := issuers(t), issuers(t), issuers(t)
	a := propose(t, create(t, part.TrustDomain), one, today)
	if !a.Next.Is(one) || a.Issuing.own == nil {
		t.Fatalf("%+v", a)
	}
	if b := propose(t, a, two, today.Add(proposalPause-time.Second)); !b.Next.Is(one) {
		t.Error("an issuer that alternates changes the bundle with each certificate")
	}
	a, _ = advance(t, a, "", true, today.Add(time.Hour))
	if !a.Issuing.Is(one) || a.Issuing.own != nil {
		t.Fatalf("%+v", a)
	}
	if b := propose(t, a, one, today.Add(2*time.Hour)); b.Next != nil || b.Sequence != a.Sequence {
		t.Error("the CA that issues is proposed again")
	}
	a = propose(t, a, two, today.Add(2*time.Hour))
	a, _ = advance(t, a, "", true, today.Add(3*time.Hour))
	if strings.Count(a.Bundle(), "BEGIN") != 3 || len(a.Retired) != 2 {
		t.Errorf("certificates of earlier CAs are refused: %+v", a)
	}
	full, _ := advance(t, propose(t, a, three, today.Add(4*time.Hour)), "", true, today.Add(5*time.Hour))
	if _, err := ParseBundle(full.Bundle(), part.TrustDomain); err != nil {
		t.Error(err)
	}
	if _, _, err := full.Propose(issuers(t), today.Add(6*time.Hour)); err == nil ||
		!strings.Contains(err.Error(), "let it keep one until the oldest is dropped") {
		t.Errorf("a bundle that others refuse: %v", err)
	}
	back := propose(t, a, one, today.Add(6*time.Hour))
	if !back.Next.Is(one) || strings.Count(back.Bundle(), "BEGIN") != 3 {
		t.Errorf("a CA that comes back: %+v", back)
	}
	if later, _ := advance(t, a, "", false, today.Add(12*day)); later.Bundle() != string(two.CertificatePEM()) {
		t.Error("earlier CAs stay")
	}
}

func TestWithoutTheIssuerTheOperatorMakesAnAuthorityThatMustBeAccepted(t *testing.T) {
	own := create(t, part.TrustDomain)
	if _, changed, err := own.Return(today); changed || err != nil {
		t.Errorf("an own authority is replaced: %v", err)
	}
	if a, changed, err := propose(t, own, issuers(t), today).Return(today.Add(day)); !changed || err != nil ||
		a.Next != nil {
		t.Errorf("the CA of an issuer that is not used stays: %v", err)
	}
	a, _ := advance(t, propose(t, own, issuers(t), today), "", true, today)
	back, changed, err := a.Return(today.Add(day))
	if err != nil || !changed || back.Next == nil || back.Next.own == nil || !back.Issuing.Is(a.Issuing) {
		t.Fatalf("%+v, %v", back, err)
	}
	if _, changed, err := back.Return(today.Add(2 * day)); changed || err != nil {
		t.Errorf("again: %t, %v", changed, err)
	}
}

func TestAnAuthorityCanBeReplacedWhileTheOneBeforeIsStillTrusted(t *testing.T) {
	a, err := Create("eu.1", today)
	if err != nil {
		t.Fatal(err)
	}
	for range maxAuthorities - 1 { // after that the bundle is full, until the first one is dropped
		begun := step(t, a, RotationRequest(RotateBegin, Fingerprint(a.Issuing.Certificate())))
		if begun.Next == nil {
			t.Fatalf("no rotation begins with %d retired", len(a.Retired))
		}
		next := step(t, begun, RotationRequest(RotateForce, Fingerprint(begun.Next.Certificate())))
		if next.Next != nil || next.Issuing.Is(a.Issuing) || next.Sequence <= begun.Sequence {
			t.Fatal("the new authority does not issue")
		}
		a = next
	}
	if full := step(t, a, RotationRequest(RotateBegin, Fingerprint(a.Issuing.Certificate()))); full.Next != nil {
		t.Error("the bundle has more authorities than others accept")
	}
}

func step(t *testing.T, a Authorities, request string) Authorities {
	t.Helper()
	next, _, err := a.Advance(request, false, today)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestARestoredBackupGetsALaterSequence(t *testing.T) {
	a, err := Create("eu.1", today)
	if err != nil {
		t.Fatal(err)
	}
	if _, changed := a.Restore(a.Sequence, today); changed {
		t.Error("what was published last is taken for a later one")
	}
	back, changed := a.Restore(a.Sequence+5, today)
	if !changed || back.Sequence <= a.Sequence+5 || back.Bundle() != a.Bundle() {
		t.Errorf("sequence %d after %d", back.Sequence, a.Sequence+5)
	}
}
