package node

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// lister is a network whose only shard names 25 keys, ten at a time, whatever the limit.
type lister struct {
	to  *Sidecar
	old bool // it does not number its places
}

func (l *lister) Close() error { return nil }

func (l *lister) Send(m causal.Message) {
	if m.Kind != causal.KindScan {
		return
	}
	s := m.Scan()
	from := max(len(s.After), int(s.Place)) // as many bytes as keys were named
	reply := causal.ScanReply{ID: s.ID, Map: s.Map}
	for i := from; i < min(from+10, 25); i++ {
		reply.Keys = append(reply.Keys, fmt.Sprintf("k%02d", i))
	}
	if from+10 < 25 {
		reply.Next = string(make([]byte, from+10))
		if !l.old {
			reply.Place = uint64(from + 10)
		}
	}
	l.to.Handle([]causal.Message{reply.Message(m.To, m.From)})
}

// newLister returns a sidecar of a deployment whose only shard is a lister.
func newLister(t *testing.T, index uint64) *lister {
	topo, err := topology.Parse([]byte("epoch: 1\ndataCenters: [{name: a}]\nrings: [{name: r, dataCenters: [a]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	l := &lister{}
	l.to = NewSidecar(
		SidecarOptions{Config: session.DefaultConfig(topo, topology.Node{Part: topology.Sidecar, Index: index}),
			Clock: NewClock(), Net: l, Scope: ScopePod})
	return l
}

func TestACursorContinuesItsScanAtAnySidecar(t *testing.T) {
	sidecars := []*Sidecar{newLister(t, 1).to, newLister(t, 2).to}
	calls := 0
	scan := func(cursor uint64) ([]string, uint64) {
		t.Helper()
		calls++
		keys, next, err := connect(t, sidecars[calls%2]).Scan(context.Background(), cursor, 10)
		if err != nil {
			t.Fatal(err)
		}
		return keys, next
	}
	all, cursor := scan(0)
	for cursor != 0 {
		again, _ := scan(cursor) // a client that lost the answer asks again
		var keys []string
		if keys, cursor = scan(cursor); !slices.Equal(keys, again) {
			t.Errorf("%q, and again %q", keys, again)
		}
		all = append(all, keys...)
	}
	if len(all) != 25 || !slices.IsSorted(all) || len(slices.Compact(all)) != 25 {
		t.Errorf("%q", all)
	}
	for _, unknown := range []uint64{1, 12345, 1 << 52} {
		if _, _, err := connect(t, sidecars[0]).Scan(context.Background(), unknown, 10); err == nil {
			t.Errorf("cursor %d is taken", unknown)
		}
	}
}

// A shard of an earlier version does not number its places: the connection knows the last one, and no other does.
func TestACursorOfAnOldShardIsKnownToItsConnection(t *testing.T) {
	l := newLister(t, 1)
	l.old = true
	c := connect(t, l.to)
	var all []string
	for cursor := uint64(0); ; {
		keys, next, err := c.Scan(context.Background(), cursor, 10)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, keys...)
		if cursor = next; cursor == 0 {
			break
		}
		if _, _, err := connect(t, l.to).Scan(context.Background(), cursor, 10); err == nil {
			t.Error("another connection continues the scan")
		}
	}
	if len(all) != 25 {
		t.Errorf("%q", all)
	}
}
