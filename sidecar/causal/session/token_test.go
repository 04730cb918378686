package session

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// token exports session 1.
func (r *rig) token() string { return r.mustResult(r.start(Op{Kind: OpToken})).Token }

func TestATokenHoldsTheRestrictionsAndTheNewestPut(t *testing.T) {
	r := newRig(t)
	r.read("x", version(10), causal.InFlight, middle)
	r.write("k", "v", ownVersion(20))
	got, err := r.s.parseToken(r.token())
	if err != nil {
		t.Fatal(err)
	}
	want := &resumption{seen: 20, restrictions: []restriction{
		{version: version(10), slot: topology.SlotOf("x"), rings: topology.RingsOf(middle)},
		{version: ownVersion(20), slot: topology.SlotOf("k")},
	}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(resumption{}, restriction{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestATokenIsAboveADroppedTombstoneThatTheSessionHasSeen(t *testing.T) {
	r := newRig(t)
	r.read("x", causal.Missing(20).Version, causal.Stable, near)
	if got, err := r.s.parseToken(r.token()); err != nil || got.seen != 20 {
		t.Errorf("the token is at %d, want 20 (%v)", got.seen, err)
	}
}

func TestATokenThatWasAlteredIsRefused(t *testing.T) {
	r := newRig(t)
	r.write("k", "v", ownVersion(20))
	token := r.token()
	if err := r.s.CheckToken(token); err != nil {
		t.Fatal(err)
	}
	for i := range token {
		altered := []byte(token)
		altered[i] ^= 1
		// The last character of base64 may hold bits without a meaning.
		if err := r.s.CheckToken(string(altered)); err == nil && i != len(token)-1 {
			t.Errorf("a token with byte %d altered is accepted", i)
		}
	}
	if newRig(t, func(c *Config) { c.TokenKey = []byte("other") }).s.CheckToken(token) == nil {
		t.Error("a token of another deployment is accepted")
	}
	for _, junk := range []string{"", "x", "AAAA", token[:len(token)/2]} {
		if r.s.CheckToken(junk) == nil {
			t.Errorf("junk %q is accepted", junk)
		}
	}
	if res := r.mustResult(r.start(Op{Kind: OpResume, Token: "junk"})); res.Err != causal.ErrNotFound {
		t.Errorf("a malformed token was resumed: %s", res.Err)
	}
}

// resumeWrite returns a sidecar at which a token is being resumed whose session has written version 20.
func resumeWrite(r *rig) (resuming uint64) {
	other := newRig(r.t)
	other.write("k", "v", ownVersion(20))
	return r.start(Op{Kind: OpResume, Token: other.token()})
}

func TestAResumedSessionReadsTheWritesOfTheExportedOne(t *testing.T) {
	showsFault(t, causal.ResumeWithoutLast, func(r *rig) string {
		id := resumeWrite(r)
		if _, ok := r.result(id); ok {
			return "the token was resumed before any ring was known to have the newest write of its session"
		}
		return ""
	})
}

func TestATokenIsResumedWhenSomeRingHasBothPasts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(r *rig)
		learn  func(r *rig)
		done   bool
		rings  topology.RingSet // that the session may read afterwards; 0: it is unbound
	}{
		{"by an answer to notify-after", func(*rig) {}, func(r *rig) { r.depStatus(ownVersion(20), middle, false) }, true, topology.RingsOf(middle)},
		{"by RV", func(*rig) {}, func(r *rig) { r.receivedUpTo(20, far) }, true, topology.RingsOf(far)},
		{"by SV", func(*rig) {}, func(r *rig) { r.completeUpTo(20) }, true, 0},
		{"but not while the session is bound to other rings",
			func(r *rig) { r.read("x", version(30), causal.InFlight, near) },
			func(r *rig) { r.depStatus(ownVersion(20), middle, false) }, false, topology.RingsOf(near)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			tt.before(r)
			id := resumeWrite(r)
			if asked := r.sent(causal.KindDepCheck); len(asked) != 3 || asked[0].DepCheck().Version != ownVersion(20) {
				t.Errorf("%d rings were asked for the write, want 3", len(asked))
			}
			tt.learn(r)
			if _, done := r.result(id); done != tt.done {
				t.Fatalf("resumed: %t", done)
			}
			if bound, rings := r.bound(); bound != (tt.rings != 0) || bound && rings != tt.rings {
				t.Errorf("bound: %t, to rings %b; want rings %b", bound, rings, tt.rings)
			}
			if floor := r.s.sessions[1].floor; tt.done && floor < 20 {
				t.Errorf("the next put may be at %d, below the resumed session", floor)
			}
		})
	}
}

func TestRingsAreAskedAgainUntilATokenIsResumed(t *testing.T) {
	r := newRig(t)
	id := resumeWrite(r)
	r.sent(causal.KindDepCheck)
	r.tick(resumeAskInterval)
	if asked := r.sent(causal.KindDepCheck); len(asked) != 3 {
		t.Errorf("%d rings were asked again, want 3", len(asked))
	}
	r.tick(5 * time.Second)
	if res := r.mustResult(id); res.Err != causal.ErrUnavailable {
		t.Errorf("after the timeout: %s", res.Err)
	}
}
