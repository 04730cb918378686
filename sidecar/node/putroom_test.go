package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/topology"
)

// startSmallOn starts a coordinator in which two of the largest puts may be not durable, and one of them of each
// sidecar.
func startSmallOn(t *testing.T, disk vfs.FS, net *recorder) *Coordinator {
	t.Helper()
	cfg := coordinator.DefaultConfig(oneRing(t, 1, 0), topology.Node{Part: topology.Coordinator})
	cfg.MaxBytes = 64 << 20
	c, err := NewCoordinator(CoordinatorOptions{Config: cfg, Clock: NewClock(), Net: net, Dir: "/log", FS: disk,
		Logger:    discard,
		OnFailure: func(err error) { t.Errorf("the log failed: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	establish(t, c, net, func() bool { return c.Membership() == coordinator.Serving })
	return c
}

// floodOf returns puts of 1 MiB of a sidecar.
func floodOf(c *Coordinator, sidecar uint64, n int) []causal.Message {
	from, l := topology.Node{Part: topology.Sidecar, Index: sidecar}, c.Leadership()
	var batch []causal.Message
	for i := range uint64(n) {
		batch = append(batch, causal.Put{ID: i + 1, Session: 1, Seq: i + 1, Leadership: l,
			Key:   fmt.Sprintf("k%d-%d", sidecar, i),
			Value: causal.Value{Data: make([]byte, 1<<20)}}.Message(from, c.ID()))
	}
	return batch
}

// answers counts the answers to the puts of a sidecar.
func (r *recorder) answers(sidecar uint64, want causal.ErrCode) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for i := range r.sent {
		if m := &r.sent[i]; m.Kind == causal.KindPutReply && m.To.Index == sidecar && m.PutReply().Err == want {
			n++
		}
	}
	return n
}

func TestAPutWithoutRoomWaitsForTheDiskAndOthersDoNotWaitForIt(t *testing.T) {
	disk, net := newSlowDisk(vfs.NewMem()), newRecorder()
	c := startSmallOn(t, disk, net)
	defer c.Close()
	c.mu.Lock()
	c.room.patience = time.Hour // the disk writes, however slow this machine is
	c.mu.Unlock()
	disk.slow.Store(true)
	const sent = 40
	handled := make(chan struct{})
	go func() {
		c.Handle(floodOf(c, 1, sent))
		close(handled)
	}()
	<-disk.syncing
	waitUntil(t, "the flood to wait", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.room.freed != nil
	})
	c.mu.Lock()
	bytes := c.m.UndurableBytes()
	c.mu.Unlock()
	if bytes > 18<<20 {
		t.Errorf("%d bytes of one sidecar are accepted and not durable", bytes)
	}
	c.Handle(floodOf(c, 2, 3)) // on a link of its own
	go func() {
		for {
			select {
			case disk.unblock <- nil:
			case <-handled:
				return
			}
			select {
			case <-disk.syncing:
			case <-handled:
				return
			}
		}
	}()
	<-handled
	disk.slow.Store(false)
	select {
	case disk.unblock <- nil:
	case <-time.After(100 * time.Millisecond): // no sync is under way
	}
	net.wait(t, causal.KindPutReply, sent+3)
	if a, b := net.answers(1, causal.OK), net.answers(2, causal.OK); a != sent || b != 3 {
		t.Errorf("of the flood %d puts are acknowledged, of the other sidecar %d", a, b)
	}
}

func TestPutsWithoutRoomAreRefusedWhenTheDiskStandsStill(t *testing.T) {
	disk, net := newSlowDisk(vfs.NewMem()), newRecorder()
	c := startSmallOn(t, disk, net)
	defer c.Close()
	disk.slow.Store(true)
	const sent = 40
	began := time.Now()
	c.Handle(floodOf(c, 1, sent))
	if took := time.Since(began); took < diskPatience || took > 20*diskPatience {
		t.Errorf("it took %v, for a patience of %v", took, diskPatience)
	}
	refused := net.answers(1, causal.ErrBusy)
	if refused == 0 || refused == sent {
		t.Fatalf("%d of %d puts are refused", refused, sent)
	}
	<-disk.syncing
	disk.slow.Store(false)
	disk.unblock <- nil
	net.wait(t, causal.KindPutReply, sent)
	if ok := net.answers(1, causal.OK); ok != sent-refused {
		t.Errorf("%d of %d puts that were accepted are acknowledged", ok, sent-refused)
	}
}

// Only what becomes durable shows that the disk goes on, and a disk that had nothing to do has not stood still.
func TestPatienceWithTheDiskCountsFromItsLastProgress(t *testing.T) {
	var r putRoom
	freed := make(chan struct{})
	for _, step := range []struct {
		second, bytes int
		wantMoved     int
	}{{5, 10, 5}, {6, 20, 5}, {7, 15, 7}, {8, 16, 7}, {9, 0, 9}, {20, 5, 20}, {21, 6, 20}} {
		r.freed = freed
		r.note(causal.Now{Mono: int64(step.second) * int64(time.Second)}, step.bytes)
		if got := r.movedAt / int64(time.Second); got != int64(step.wantMoved) {
			t.Errorf("%d bytes at %d s: the last progress is at %d s, want %d s", step.bytes, step.second, got,
				step.wantMoved)
		}
		if r.freed == nil {
			<-freed // whoever waits is told
			freed = make(chan struct{})
		} else if step.wantMoved == step.second {
			t.Errorf("%d bytes at %d s: whoever waits is not told", step.bytes, step.second)
		}
	}
}
