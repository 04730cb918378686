package coordinator

import (
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// unsynced sends a put of a sidecar whose record does not become durable, and returns how it was refused; OK: it is
// accepted.
func (h *harness) unsynced(sidecar, seq uint64, size, deps int) causal.ErrCode {
	p := causal.Put{ID: seq, Session: 1, Seq: seq, Key: fmt.Sprint(seq), Value: causal.Value{Data: make([]byte, size)},
		Deps: h.elsewhere(deps)}
	for _, m := range ofKind(h.step(p.Message(topology.Node{Part: topology.Sidecar, Index: sidecar}, h.cfg.Self)),
		causal.KindPutReply) {
		return m.PutReply().Err
	}
	return causal.OK
}

// durable makes all puts durable, and drops the answers.
func (h *harness) durable() {
	h.sync()
	h.c.Take(nil)
}

// owned makes the sidecars from 100 on those of one identity.
func owned(c *Config) {
	c.OwnerOf = func(n topology.Node) string {
		if n.Index >= 100 {
			return "flood"
		}
		return ""
	}
}

func TestPutsThatAreNotDurableHaveABoundForEachIdentity(t *testing.T) {
	for name, tt := range map[string]struct{ size, deps int }{
		"large values": {1 << 20, 0}, "small values": {1, 0}, "many dependencies": {1, causal.MaxPutDeps},
	} {
		h := newHarness(t, 1, 0)
		owned(&h.cfg)
		h.restart(h.now)
		h.sync()
		h.tick(10)
		each := h.c.undurable.quota.Each
		size := sizeOf("1", causal.Value{Data: make([]byte, tt.size)}, tt.deps)
		accepted := 0
		for seq := uint64(1); ; seq++ {
			if err := h.unsynced(100+seq%7, seq, tt.size, tt.deps); err == causal.ErrBusy {
				break
			} else if err != causal.OK {
				t.Fatalf("%s: %s", name, err)
			}
			if accepted++; accepted > each/size+1 {
				t.Fatalf("%s: %d puts are accepted of one identity, which take %d bytes of %d", name, accepted,
					accepted*size, each)
			}
		}
		if held := h.c.UndurableBytes(); held < each-2*size || held > each {
			t.Errorf("%s: %d bytes of %d are taken", name, held, each)
		}
		if err := h.unsynced(1, 1, tt.size, tt.deps); err != causal.OK {
			t.Errorf("%s: another identity: %s", name, err)
		}
		h.durable()
		if n := h.c.UndurableBytes(); n != 0 || len(h.c.undurable.queue) != 0 {
			t.Errorf("%s: %d bytes count when all is durable", name, n)
		}
		if err := h.unsynced(100, 1e6, tt.size, tt.deps); err != causal.OK {
			t.Errorf("%s: once all is durable: %s", name, err)
		}
	}
}

func TestTheLargestPutHasRoomHoweverSmallTheBufferIs(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.cfg.MaxBytes = 2 * maxPutBytes
	h.restart(h.now)
	h.sync()
	h.tick(10)
	if err := h.unsynced(1, 1, causal.MaxValueBytes, causal.MaxPutDeps); err != causal.OK {
		t.Error(err)
	}
	if err := h.unsynced(1, 2, causal.MaxValueBytes, causal.MaxPutDeps); err != causal.ErrBusy {
		t.Errorf("a second one: %s", err)
	}
}

// The session goes on with its next put: that is ordered after those that were accepted, and nothing is left of the
// refused one.
func TestARefusedPutLeavesItsSessionAsItWas(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.tick(10)
	h.c.undurable.quota.Each = 2 * sizeOf("1", causal.Value{}, 0)
	if err := h.unsynced(1, 1, 0, 0); err != causal.OK {
		t.Fatalf("the first put: %s", err)
	}
	if err := h.unsynced(1, 2, 1<<20, 0); err != causal.ErrBusy {
		t.Fatalf("a put beyond the bound: %s", err)
	}
	h.durable()
	if err := h.unsynced(1, 3, 0, 0); err != causal.OK {
		t.Fatalf("the next one: %s", err)
	}
	h.durable()
	if n := len(h.c.writes); n != 2 || h.c.writes[1].laneDeps == nil {
		t.Errorf("%d writes; the last one names its predecessor: %v", n, h.c.writes[n-1].laneDeps != nil)
	}
	if err := h.unsynced(1, 2, 0, 0); err != causal.ErrStale {
		t.Errorf("a late copy of the refused put: %s", err)
	}
}
