package coordinator

import (
	"fmt"
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// newHomesHarness returns a harness whose coordinator is one of two homes of its data center.
func newHomesHarness(t *testing.T, mutations ...causal.Mutation) *harness {
	return newHarnessOfHomes(t, 2, mutations...)
}

// keyOf returns a key with a home, by its index.
func (h *harness) keyOf(home uint64) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("k", i); h.cfg.Topology.HomeOf(0, topology.SlotOf(key), 2).Index == home {
			return key
		}
	}
}

// PROTOCOL HOM-10.
func TestAHomeRefusesKeysOfAnother(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHomesHarness(t, mutationIf(broken, causal.HomeOfAnyKey)...)
		want := causal.ErrUnavailable
		if broken {
			want = causal.OK
		}
		mine, others := h.keyOf(0), h.keyOf(1)
		for i, c := range []struct {
			keys []string
			want causal.ErrCode
		}{{[]string{mine}, causal.OK}, {[]string{others}, want}, {[]string{mine, others}, want}} {
			read := causal.HomeRead{ID: uint64(100 * (i + 1)), Key: c.keys[0]}
			for _, key := range c.keys[1:] {
				read.More = append(read.More, causal.Moved{Key: key})
			}
			replies := h.ask(read)
			if len(replies) != len(c.keys) || replies[0].Err != c.want {
				t.Errorf("broken %v: who reads %v is told %+v", broken, c.keys, replies)
			}
		}
		if err := h.refusal(causal.Put{ID: 1, Seq: 1, Session: 1, Key: mine}); err != causal.OK {
			t.Errorf("broken %v: a put of its own key is refused: %s", broken, err)
		}
		if err := h.refusal(causal.Put{ID: 2, Seq: 2, Session: 1, Key: others}); err != want {
			t.Errorf("broken %v: a put of a key of another home gets %s", broken, err)
		}
	}
}

// PROTOCOL HOM-10.
func TestAReaderHearsOfOtherHomesOnlyHowFarTheyGo(t *testing.T) {
	h := newHomesHarness(t)
	mine, others := h.keyOf(0), topology.SlotOf(h.keyOf(1))
	foreign := h.elsewhere(1)[0]
	second := h.cfg.Topology.OriginOf(topology.Node{Part: topology.Coordinator, Index: 1})
	old := causal.Dep{Version: causal.Version{HLC: foreign.Version.HLC + 1, Origin: second}, Slot: others}
	newest := causal.Dep{Version: causal.Version{HLC: foreign.Version.HLC + 2, Origin: second}, Slot: others}
	_, after := h.put(causal.Put{Seq: 1, Session: 1, Key: mine, Deps: []causal.Dep{newest, foreign, old}})
	for _, m := range ofKind(after, causal.KindPutAfter) {
		if writes := m.PutAfter().Deps.Writes(); !slices.Contains(writes, old) || !slices.Contains(writes, newest) {
			t.Errorf("the put-after to %v names %+v", m.To, writes)
		}
	}
	if r := h.top(mine); !slices.Equal(r.Deps, []causal.Dep{newest, foreign}) {
		t.Errorf("who reads it is told %+v; want what is in-flight elsewhere, and the newest of the other home", r.Deps)
	}
}

// PROTOCOL HOM-7.
func TestAHomeRefusesAPutThatNamesWhatItHasNot(t *testing.T) {
	h := newHomesHarness(t)
	key := h.keyOf(0)
	v := h.write(causal.Put{ID: 1, Seq: 1, Session: 1, Key: key})
	named := causal.Dep{Version: v, Slot: topology.SlotOf(key)}
	if err := h.refusal(causal.Put{ID: 2, Seq: 1, Session: 2, Key: key, Deps: []causal.Dep{named}}); err != causal.OK {
		t.Errorf("a put that names a write of the home is refused: %s", err)
	}
	named.Version.HLC += 1 << 20
	if err := h.refusal(causal.Put{ID: 3, Seq: 2, Session: 2, Key: key,
		Deps: []causal.Dep{named}}); err != causal.ErrUnavailable {
		t.Errorf("a put that names a write that the home has not gets %s", err)
	}
}

// PROTOCOL HOM-10.
func TestAHomeRefusesCommitsOfKeysOfAnother(t *testing.T) {
	h := newHomesHarness(t)
	mine, others := h.keyOf(0), h.keyOf(1)
	if r := h.commit(causal.HomeCommit{Seq: 1, Keys: puts("1", mine, others)}); r.Err != causal.ErrUnavailable {
		t.Errorf("it is answered with %s", r.Err)
	}
	own := puts("1", mine, "{"+mine+"}")
	if r := h.commit(causal.HomeCommit{Seq: 2, Unanswered: 2, Keys: own}); r.Err != causal.OK {
		t.Errorf("one of own keys is answered with %s", r.Err)
	}
}
