package middleman

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func readTask() *task { return &task{kind: taskRead, key: "k"} }

func writeTask(hlc causal.HLC) *task {
	return &task{kind: taskWrite, key: "k", put: &put{record: causal.Record{Version: version(hlc)}}}
}

// newTestQueues returns queues of which every write reads first.
func newTestQueues() *taskQueues {
	qs := newTaskQueues(nil)
	qs.startWrite = func(t *task) { qs.request(StorageOp{Kind: StorageRead, Key: t.key}, t) }
	return &qs
}

// started returns the tasks whose storage requests have been issued since the last call.
func (qs *taskQueues) started() (tasks []*task) {
	for _, op := range qs.take(nil) {
		tasks = append(tasks, qs.finish(op.ID))
	}
	return tasks
}

func TestReadsOfAKeyOverlapAndAWriteIsAlone(t *testing.T) {
	qs := newTestQueues()
	reads, write, late := []*task{readTask(), readTask()}, writeTask(1), readTask()
	qs.submit(reads[0])
	qs.submit(reads[1])
	qs.submit(write)
	qs.submit(late)
	if got := qs.started(); !slices.Equal(got, reads) {
		t.Fatalf("%d tasks were started, want the two reads", len(got))
	}
	qs.release(reads[0])
	if got := qs.started(); len(got) > 0 {
		t.Fatal("the write was started while a read was running")
	}
	qs.release(reads[1])
	if got := qs.started(); !slices.Equal(got, []*task{write}) {
		t.Fatalf("%d tasks were started, want the write alone", len(got))
	}
	qs.release(write)
	if got := qs.started(); !slices.Equal(got, []*task{late}) {
		t.Fatalf("%d tasks were started, want the read behind the write", len(got))
	}
	qs.release(late)
	if len(qs.byKey) > 0 || qs.inFlight.len() > 0 {
		t.Error("an idle key is remembered")
	}
}

func TestKeysDoNotWaitForEachOther(t *testing.T) {
	qs := newTestQueues()
	a, b := writeTask(1), writeTask(2)
	b.key = "other"
	qs.submit(a)
	qs.submit(b)
	if got := qs.started(); len(got) != 2 {
		t.Errorf("%d tasks were started, want both", len(got))
	}
}

func TestWaitingWritesOfAKeyBecomeOneWriteOfTheNewest(t *testing.T) {
	qs := newTestQueues()
	r := readTask()
	qs.submit(r)
	for _, hlc := range []causal.HLC{3, 5, 4} {
		qs.submit(writeTask(hlc))
	}
	qs.started()
	qs.release(r)
	got := qs.started()
	if len(got) != 1 || got[0].put.record.Version.HLC != 5 {
		t.Fatalf("%d tasks were started, want one that writes version 5", len(got))
	}
	var coalesced []causal.HLC
	for _, p := range got[0].coalesced {
		coalesced = append(coalesced, p.record.Version.HLC)
	}
	if slices.Sort(coalesced); !slices.Equal(coalesced, []causal.HLC{3, 4}) {
		t.Errorf("it supersedes %v, want 3 and 4", coalesced)
	}
}

func TestEveryTaskRunsOnceAndNoWriteOverlaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		qs := newTestQueues()
		var running []*task
		submitted, done := 0, 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "submit") || len(running) == 0 {
				submitted++
				if rapid.Bool().Draw(t, "write") {
					qs.submit(writeTask(causal.HLC(submitted)))
				} else {
					qs.submit(readTask())
				}
			} else {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "finished")
				done += 1 + len(running[i].coalesced)
				finished := running[i]
				running = slices.Delete(running, i, i+1)
				qs.release(finished)
			}
			running = append(running, qs.started()...)
			if len(running) > 1 && slices.ContainsFunc(running, func(w *task) bool { return w.kind == taskWrite }) {
				t.Fatalf("%d tasks run beside a write", len(running)-1)
			}
		}
		for len(running) > 0 {
			done += 1 + len(running[0].coalesced)
			finished := running[0]
			running = running[1:]
			qs.release(finished)
			running = append(running, qs.started()...)
		}
		if done != submitted {
			t.Fatalf("%d of %d tasks were done", done, submitted)
		}
	})
}
