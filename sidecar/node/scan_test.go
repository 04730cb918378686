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
type lister struct{ to *Sidecar }

func (l *lister) Close() error { return nil }

func (l *lister) Send(m causal.Message) {
	if m.Kind != causal.KindScan {
		return
	}
	s := m.Scan()
	from := len(s.After) // as many bytes as keys were named
	reply := causal.ScanReply{ID: s.ID, Map: s.Map}
	for i := from; i < min(from+10, 25); i++ {
		reply.Keys = append(reply.Keys, fmt.Sprintf("k%02d", i))
	}
	if from+10 < 25 {
		reply.Next = string(make([]byte, from+10))
	}
	l.to.Handle([]causal.Message{reply.Message(m.To, m.From)})
}

func TestACursorContinuesItsScanOnAnyConnection(t *testing.T) {
	topo, err := topology.Parse([]byte("epoch: 1\ndataCenters: [{name: a}]\nrings: [{name: r, dataCenters: [a]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	l := &lister{}
	l.to = NewSidecar(
		SidecarOptions{Config: session.DefaultConfig(topo, topology.Node{Part: topology.Sidecar, Index: 1}),
			Clock: NewClock(), Net: l, Scope: ScopePod})
	scan := func(cursor uint64, limit int) ([]string, uint64) {
		t.Helper()
		keys, next, err := connect(t, l.to).Scan(context.Background(), cursor, limit)
		if err != nil {
			t.Fatal(err)
		}
		return keys, next
	}
	for _, limit := range []int{3, 10, 1000} {
		var all []string
		keys, cursor := scan(0, limit)
		all = append(all, keys...)
		for cursor != 0 {
			again, _ := scan(cursor, limit) // a client that lost the answer asks again
			keys, cursor = scan(cursor, limit)
			if !slices.Equal(keys, again) || len(keys) > limit {
				t.Errorf("limit %d: %q, and again %q", limit, keys, again)
			}
			all = append(all, keys...)
		}
		if len(all) != 25 || !slices.IsSorted(all) || len(slices.Compact(all)) != 25 {
			t.Errorf("limit %d: %q", limit, all)
		}
	}
	_, forgotten := scan(0, 10)
	for range maxScanCursors {
		scan(0, 10)
	}
	for _, cursor := range []uint64{forgotten, 12345} {
		if _, _, err := connect(t, l.to).Scan(context.Background(), cursor, 10); err == nil {
			t.Errorf("cursor %d, which nobody knows: %v", cursor, err)
		}
	}
}
