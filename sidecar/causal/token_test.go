package causal

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/topology"
)

func sidecarFor(key string) *Sidecar {
	t, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1}}, []topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		panic(err)
	}
	cfg := DefaultSidecarConfig(t, topology.Node{Part: topology.Sidecar, Index: 1})
	cfg.TokenKey = []byte(key)
	s := NewSidecar(cfg)
	s.Open(1)
	return s
}

func TestATokenThatWasChangedIsRefused(t *testing.T) {
	s := sidecarFor("secret")
	s.sessions[1].floor = 77
	s.sessions[1].last = Dep{Version{70, 1}, 9}
	token := s.export(s.sessions[1])
	r, err := s.parseToken(token)
	if err != nil || r.seen != 77 || len(r.restrict) != 1 || r.restrict[0].version != (Version{70, 1}) || r.restrict[0].slot != 9 {
		t.Fatalf("round trip: %+v, %v", r, err)
	}
	for i := range token {
		changed := []byte(token)
		changed[i] ^= 1
		if err := s.CheckToken(string(changed)); err == nil && string(changed) != token {
			// The last character of base64 may hold bits that mean nothing.
			if i != len(token)-1 {
				t.Errorf("a token with byte %d changed was taken", i)
			}
		}
	}
	if sidecarFor("other").CheckToken(token) == nil {
		t.Error("a token of another deployment was taken")
	}
	for _, junk := range []string{"", "x", "AAAA", token[:len(token)/2]} {
		if s.CheckToken(junk) == nil {
			t.Errorf("junk %q was taken", junk)
		}
	}
}
