package resp

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/front"
)

// countingBackend counts what commands of many keys do at a time.
type countingBackend struct {
	*memory
	mostKeys, reads, puts, mostPuts atomic.Int64
}

type countingSession struct {
	*memorySession
	b *countingBackend
}

func (b *countingBackend) NewSession() (front.Session, error) {
	s, err := b.memory.NewSession()
	return &countingSession{s.(*memorySession), b}, err
}

func (s *countingSession) MGet(ctx context.Context, keys []string) ([]causal.Value, error) {
	s.b.reads.Add(1)
	s.b.mostKeys.Store(max(s.b.mostKeys.Load(), int64(len(keys))))
	return s.memorySession.MGet(ctx, keys)
}

func (s *countingSession) PutAsync(key string, v causal.Value) func() error {
	s.b.mostPuts.Store(max(s.b.mostPuts.Load(), s.b.puts.Add(1)))
	wait := s.memorySession.PutAsync(key, v)
	return func() error {
		s.b.puts.Add(-1)
		return wait()
	}
}

func manyKeys(name string, n int, value ...string) []string {
	args := []string{name}
	for i := range n {
		args = append(append(args, fmt.Sprint("key", i)), value...)
	}
	return args
}

func TestCommandsOfManyKeysWorkInBatches(t *testing.T) {
	const n = 5000
	b := &countingBackend{memory: newMemory()}
	_, address := serve(t, Options{Backend: b})
	p := dial(t, address)
	p.expect("+OK\r\n", manyKeys("MSET", n, "v")...)
	p.expect(fmt.Sprintf(":%d\r\n", n+1), append(manyKeys("EXISTS", n), "key0")...)
	p.expect(fmt.Sprintf(":%d\r\n", n), append(manyKeys("DEL", n), "key0")...) // key0 is deleted once
	p.expect(":0\r\n", manyKeys("EXISTS", n)...)
	if keys, puts := b.mostKeys.Load(), b.mostPuts.Load(); keys != maxBatchKeys || puts != maxPendingPuts {
		t.Errorf("%d keys were read, and %d puts were in flight at a time; want %d and %d", keys, puts, maxBatchKeys,
			maxPendingPuts)
	}
}

func TestPutsInFlightAreBoundedByTheirBytes(t *testing.T) {
	b := &countingBackend{memory: newMemory()}
	_, address := serve(t, Options{Backend: b, Limits: Limits{MaxPipelineBytes: 10_000}})
	dial(t, address).expect("+OK\r\n", manyKeys("MSET", 100, strings.Repeat("v", 1000))...)
	if puts := b.mostPuts.Load(); puts < 5 || puts > 10 {
		t.Errorf("%d puts of 1 kB were in flight at a time", puts)
	}
}

func TestMGetReadsEachKeyOnceAndRefusesTooMany(t *testing.T) {
	b := &countingBackend{memory: newMemory()}
	_, address := serve(t, Options{Backend: b, Limits: Limits{MaxMGetKeys: 2}})
	p := dial(t, address)
	p.expect("+OK\r\n", "MSET", "a", "1", "b", "2")
	p.expect("*5\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n2\r\n", "MGET", "a", "b", "a", "a", "b")
	if b.mostKeys.Load() != 2 || b.reads.Load() != 1 {
		t.Errorf("%d keys in %d reads", b.mostKeys.Load(), b.reads.Load())
	}
	p.expect("-ERR MGET of 3 different keys, more than the limit of 2; split it\r\n", "MGET", "a", "b", "c")
}
