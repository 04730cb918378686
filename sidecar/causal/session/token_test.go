package session

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
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
		{version: version(10), slot: topology.SlotOf("x")}, // which rings have it is for whoever resumes to find out
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

// rawToken encodes numbers as tokens do.
func rawToken(numbers ...uint64) string {
	var b []byte
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return string(b)
}

func TestATokenWithImpossibleContentIsRefused(t *testing.T) {
	r := newRig(t)
	good := rawToken(20, 1, 5, 17, 3) // newest, number of writes; each: age, origin, slot
	if err := r.s.CheckToken(good); err != nil {
		t.Fatal(err)
	}
	for what, token := range map[string]string{
		"empty": "", "truncated": good[:len(good)-1], "with more at the end": good + "\x00",
		"with fewer writes than it says":            rawToken(20, 2, 5, 17, 3),
		"with more writes than a session keeps":     rawToken(20, 4098),
		"with a write that is newer than all":       rawToken(20, 1, 21, 17, 3),
		"with a write at no time":                   rawToken(20, 1, 20, 17, 3),
		"with a write of no origin":                 rawToken(20, 1, 5, 0, 3),
		"with an origin that no topology has":       rawToken(20, 1, 5, 1<<32+17, 3),
		"with an origin that this topology has not": rawToken(20, 1, 5, uint64(r.topo.Origins())+1, 3),
		"with a slot that does not exist":           rawToken(20, 1, 5, 17, topology.Slots+1),
		"with a number beyond 64 bits":              strings.Repeat("\xff", 10) + "\x01\x00",
	} {
		if r.s.CheckToken(token) == nil {
			t.Errorf("a token %s is accepted", what)
		}
		if res := r.mustResult(r.start(Op{Kind: OpResume, Token: token})); res.Err != causal.ErrNotFound {
			t.Errorf("a token %s was resumed: %s", what, res.Err)
		}
	}
}

// docs/clients.md says how long tokens are.
func TestATokenHasNineBytesForEachWrite(t *testing.T) {
	r := newRig(t, noCache)
	r.now.WallMs = 1_800_000_000_000
	for i := range 4096 { // over a minute
		v := causal.Version{HLC: causal.HLCAt(r.now.WallMs - int64(4095-i)*15),
			Origin: topology.Origin(1 + i%r.topo.Origins())}
		r.read(fmt.Sprint(i), v, causal.InFlight, near)
	}
	r.write("k", "v", causal.Version{HLC: causal.HLCAt(r.now.WallMs) + 1, Origin: 1})
	token := r.token()
	if err := r.s.CheckToken(token); err != nil || len(token) > 10+4097*9 {
		t.Errorf("a token of 4097 writes has %d bytes, and is resumed with %v", len(token), err)
	}
	t.Logf("%d bytes", len(token))
}

func FuzzTokensOfAttackers(f *testing.F) {
	f.Add([]byte(rawToken(20, 1, 5, 17, 3)))
	f.Add([]byte(rawToken(20, 0)))
	f.Add([]byte(rawToken(1<<63, 2, 1<<62, 1, 4095, 0, 48, 0)))
	f.Add([]byte(rawToken(20, 4097)))
	f.Add([]byte(nil))
	r := newRig(f)
	f.Fuzz(func(t *testing.T, token []byte) {
		got, err := r.s.parseToken(string(token))
		if err != nil {
			return
		}
		if n := len(got.restrictions); n > r.s.cfg.MaxRestrictions+1 {
			t.Errorf("%d writes", n)
		}
		for _, e := range got.restrictions {
			if !e.version.Written() || e.version.HLC > got.seen || int(e.version.Origin) > r.topo.Origins() ||
				e.slot >= topology.Slots || e.rings != 0 {
				t.Errorf("accepted %+v", e)
			}
		}
	})
}

// A ring that a sidecar claims to have a write is not believed: not for a write that the session has read itself, and
// not for others.
func TestATokenCannotMakeASessionReadFromARingWithoutWhatItHasSeen(t *testing.T) {
	r := newRig(t)
	r.read("x", version(10), causal.InFlight, middle)
	lie := rawToken(10, 1, 0, 17, uint64(topology.SlotOf("x")), 1<<far) // with ring sets, as tokens once had
	if res := r.mustResult(r.start(Op{Kind: OpResume, Token: lie})); res.Err != causal.ErrNotFound {
		t.Errorf("result %s", res.Err)
	}
	if res := r.mustResult(r.start(Op{Kind: OpResume,
		Token: rawToken(10, 1, 0, 17, uint64(topology.SlotOf("x")))})); res.Err != causal.OK {
		t.Errorf("a token that says what the session knows is not resumed at once: %s", res.Err)
	}
	if _, rings := r.bound(); rings != topology.RingsOf(middle) {
		t.Errorf("the session may read from rings %b", rings)
	}
}

func TestATokenBindsASessionToNoMoreWritesThanItMayHaveRead(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxRestrictions = 1 })
	r.read("x", version(10), causal.InFlight, middle)
	id := r.start(Op{Kind: OpResume, Token: rawToken(11, 1, 0, 17, 3)})
	r.depStatus(version(11), middle, false)
	r.mustBeUnfinished(id)
	r.completeUpTo(10)
	if res := r.mustResult(id); res.Err != causal.OK {
		t.Errorf("result %s", res.Err)
	}
}

// resumeWrite returns a sidecar at which a token is being resumed whose session has written version 20.
func resumeWrite(r *rig) (resuming uint64) {
	other := newRig(r.t, func(c *Config) { c.Broken = r.s.cfg.Broken })
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
		{"by an answer to notify-after", func(*rig) {}, func(r *rig) {
			r.depStatus(ownVersion(20), middle, false)
		}, true, topology.RingsOf(middle)},
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
