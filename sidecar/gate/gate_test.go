package gate

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestCloseWaitsForCallsInsideAndRefusesNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New()
		for range 2 {
			if !g.Enter() || g.IsClosed() {
				t.Fatal("an open gate refused a call")
			}
		}
		var first atomic.Int64
		var returned atomic.Int64
		for range 3 {
			go func() {
				if g.Close() {
					first.Add(1)
				}
				returned.Add(1)
			}()
		}
		synctest.Wait()
		if g.Enter() || !g.IsClosed() {
			t.Error("a closed gate admitted a call")
		}
		g.Leave()
		synctest.Wait()
		if n := returned.Load(); n != 0 {
			t.Errorf("%d calls of Close returned while a call was inside", n)
		}
		g.Leave()
		synctest.Wait()
		if returned.Load() != 3 || first.Load() != 1 {
			t.Errorf("%d of 3 calls of Close returned, %d as the first", returned.Load(), first.Load())
		}
		if g.Close() {
			t.Error("a later Close returned true")
		}
	})
}

func TestNoCallIsInsideAfterClose(t *testing.T) {
	for range 200 {
		g := New()
		var inside, entered atomic.Int64
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				for g.Enter() {
					inside.Add(1)
					entered.Add(1)
					inside.Add(-1)
					g.Leave()
				}
			})
		}
		for entered.Load() == 0 {
		}
		g.Close()
		if n := inside.Load(); n != 0 {
			t.Fatalf("%d calls inside after Close", n)
		}
		callers.Wait()
	}
}
