package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func newKeyLocks() *keyLocks { return &keyLocks{used: map[string]*keyLock{}} }

// holds are the ways to hold the lock of key k.
var holds = map[string]func(k *keyLocks) (unlock func()){
	"read":              func(k *keyLocks) func() { return k.read([]string{"k"}) },
	"plain write":       func(k *keyLocks) func() { return k.share("k").unshare },
	"read-modify-write": func(k *keyLocks) func() { return k.update([]string{"k"}) },
	"transaction":       func(k *keyLocks) func() { return k.isolate([]string{"z", "k"}) },
	"read of one key": func(k *keyLocks) func() {
		k.awaitTransaction("k")
		return func() {}
	},
}

func TestKeyLocksExcludeWhatMustNotOverlap(t *testing.T) {
	exclusive := map[[2]string]bool{
		{"read", "transaction"}: true, {"read of one key", "transaction"}: true,
		{"plain write", "read-modify-write"}: true, {"plain write", "transaction"}: true,
		{"read-modify-write", "read-modify-write"}: true, {"read-modify-write", "transaction"}: true,
		{"transaction", "transaction"}: true,
	}
	for first, hold := range holds {
		if first == "read of one key" {
			continue // it holds nothing
		}
		for second, try := range holds {
			k := newKeyLocks()
			unlock := hold(k)
			held := make(chan func())
			go func() { held <- try(k) }()
			if exclusive[[2]string{first, second}] || exclusive[[2]string{second, first}] {
				waitUntil(t, "the second to wait", func() bool { return k.isAwaited("k") })
				select {
				case <-held:
					t.Errorf("%s during %s did not wait", second, first)
				default:
				}
				unlock()
				(<-held)()
			} else {
				(<-held)()
				unlock()
			}
			if len(k.used) != 0 || k.transactions.Load() != 0 {
				t.Errorf("%s during %s: %d locks and %d transactions left", second, first, len(k.used),
					k.transactions.Load())
			}
		}
	}
}

// isAwaited reports whether somebody uses the lock of a key beside one holder.
func (k *keyLocks) isAwaited(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used[key] != nil && k.used[key].users > 1
}

func TestKeyLocksDoNotDeadlock(t *testing.T) {
	k := newKeyLocks()
	var all sync.WaitGroup
	values := map[string]int{"a": 0, "b": 0, "c": 0}
	for i := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 0))
			for range 2000 {
				keys := []string{string(rune('a' + r.IntN(3))), string(rune('a' + r.IntN(3))), "a"}
				switch r.IntN(4) {
				case 0: // two plain writes in flight: the first completes by itself
					first := k.share(keys[0])
					done := make(chan struct{})
					go func() {
						first.unshare()
						close(done)
					}()
					k.share(keys[1]).unshare()
					<-done
				case 1:
					unlock := k.read(keys)
					if sum := values["a"] + values["b"] + values["c"]; sum != 0 {
						t.Errorf("saw a transaction in progress: %d", sum)
					}
					unlock()
				case 2:
					k.update(keys)()
				default:
					unlock := k.isolate([]string{"c", "b", "a"})
					values[keys[0]]++ // the race detector detects two at a time
					values[keys[1]]--
					unlock()
				}
			}
		})
	}
	all.Wait()
	if len(k.used) != 0 {
		t.Errorf("%d locks left", len(k.used))
	}
}

// A put that is in flight when a transaction begins belongs before it: the transaction waits for it.
func TestATransactionWaitsForPlainWritesInFlight(t *testing.T) {
	s := sidecarOn(t, func(f func()) { f() }) // puts are never answered
	writer, other := connect(t, s), connect(t, s)
	put := make(chan error, 1)
	go func() { put <- writer.Put(context.Background(), "k", causal.Value{}) }()
	waitUntil(t, "the put to be in flight", func() bool { return isUsed(s, "k") })
	isolated := make(chan func())
	go func() { isolated <- other.Isolate("k") }()
	waitUntil(t, "the transaction to wait", func() bool { return s.keyLocks.isAwaited("k") })
	select {
	case <-isolated:
		t.Fatal("the transaction began while a put was in flight")
	default:
	}
	s.Close() // completes the put
	if err := <-put; err == nil {
		t.Error("the put was not answered, and yet did not fail")
	}
	(<-isolated)()
	if isUsed(s, "k") {
		t.Error("a lock is left")
	}
}

func isUsed(s *Sidecar, key string) bool {
	s.keyLocks.mu.Lock()
	defer s.keyLocks.mu.Unlock()
	return s.keyLocks.used[key] != nil
}

func TestReadsWaitForATransaction(t *testing.T) {
	s := sidecarOn(t, func(f func()) { f() })
	writer, reader := connect(t, s), connect(t, s)
	release := writer.Isolate("a", "b")
	if v, err := writer.Get(context.Background(), "a"); err != nil || string(v.Data) != "a" {
		t.Fatalf("a read in the transaction: %q, %v", v.Data, err)
	}
	read := make(chan string, 2)
	go func() {
		v, err := reader.Get(context.Background(), "b")
		read <- fmt.Sprint(string(v.Data), err)
		vs, err := reader.MGet(context.Background(), []string{"c", "b"})
		read <- fmt.Sprint(string(vs[0].Data), string(vs[1].Data), err)
	}()
	waitUntil(t, "the read to wait", func() bool { return s.keyLocks.isAwaited("b") })
	select {
	case got := <-read:
		t.Errorf("read %s during the transaction", got)
	default:
	}
	release()
	if got := <-read; got != "b<nil>" {
		t.Errorf("GET: %s", got)
	}
	if got := <-read; got != "cb<nil>" && got != "cb <nil>" {
		t.Errorf("MGET: %s", got)
	}
}
