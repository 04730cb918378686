package resp

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/front"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/sidecar/value"
)

// memory is a Backend whose store is a map.
type memory struct {
	mu     sync.Mutex
	values map[string]causal.Value
	puts   map[string]int // by key: how many there were
	locks  map[string]*sync.Mutex

	// sessionError is returned by NewSession.
	sessionError error
	// operationError is returned by every operation.
	operationError error
	// together is how many keys GetEach reads at most; 0: all.
	together int
	// putError, if it returns an error, keeps a put from being stored.
	putError func(key string) error
	// before is called in the session with each operation and its key. It may block or panic.
	before func(operation, key string)

	exact   bool                    // its sessions are
	inOrder func(keys []string) int // how many of the first keys are committed in order; nil: one
	deleted []string                // deleted keys that scans name
	commits []memoryCommit

	opened, closed atomic.Int64
}

var types = value.Shipped()

// memoryCommit is what a session has written in one step.
type memoryCommit struct {
	puts []front.Write
	read []string
}

func newMemory() *memory {
	return &memory{values: make(map[string]causal.Value), puts: make(map[string]int),
		locks: make(map[string]*sync.Mutex)}
}

func (m *memory) NewSession() (front.Session, error) {
	if m.sessionError != nil {
		return nil, m.sessionError
	}
	m.opened.Add(1)
	return &memorySession{store: m}, nil
}

func (m *memory) hook(operation, key string) {
	if m.before != nil {
		m.before(operation, key)
	}
}

func (m *memory) get(key string) causal.Value {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.values[key]; ok {
		return v
	}
	return causal.Value{Tombstone: true}
}

func (m *memory) put(key string, v causal.Value) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := causal.Record{Version: m.versionOf(key), Value: m.values[key]}
	m.puts[key]++
	after := causal.Record{Version: m.versionOf(key), Value: v}
	if _, has := m.values[key]; has {
		after = types.Join(before, after)
	}
	m.values[key] = after.Value
}

// versionOf returns as many puts as the version of a key as there were.
func (m *memory) versionOf(key string) causal.Version {
	return causal.Version{HLC: causal.HLC(m.puts[key]), Origin: 1}
}

func (m *memory) record(key string) causal.Record {
	v := m.get(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	return causal.Record{Version: m.versionOf(key), Value: v}
}

var errPutRefused = front.Errorf(front.Busy, "the write buffer is full; try again")

type memorySession struct {
	store *memory
	names []string // of the scan
	level causal.Level
}

func (s *memorySession) Get(_ context.Context, key string) (causal.Value, error) {
	s.store.hook("get", key)
	return s.store.get(key), s.store.operationError
}

func (s *memorySession) GetRecord(_ context.Context, key string) (causal.Record, error) {
	s.store.hook("get", key)
	return s.store.record(key), s.store.operationError
}

func (s *memorySession) MGet(_ context.Context, keys []string) ([]causal.Value, error) {
	values := make([]causal.Value, len(keys))
	for i, key := range keys {
		s.store.hook("get", key)
		values[i] = s.store.get(key)
	}
	return values, s.store.operationError
}

func (s *memorySession) Put(_ context.Context, key string, v causal.Value) error {
	s.store.hook("put", key)
	if s.store.operationError != nil {
		return s.store.operationError
	}
	if err := s.store.refuses(key); err != nil {
		return err
	}
	s.store.put(key, v)
	return nil
}

// refuses returns the error of a put that is not stored.
func (m *memory) refuses(key string) error {
	if key == "refused" {
		return errPutRefused
	}
	if m.putError != nil {
		return m.putError(key)
	}
	return nil
}

func (s *memorySession) PutAsync(key string, v causal.Value) func() error {
	s.store.hook("issue", key)
	if err := s.store.refuses(key); err != nil {
		return func() error { return err }
	}
	s.store.put(key, v)
	return func() error {
		s.store.hook("await", key)
		return nil
	}
}

func (s *memorySession) GetEach(_ context.Context, keys [][]byte, results []front.GetResult) int {
	operation := "read"
	if s.store.together > 0 {
		keys = keys[:min(s.store.together, len(keys))]
	}
	if len(keys) == 1 {
		operation = "get"
	}
	for i, key := range keys {
		s.store.hook(operation, string(key))
		r := s.store.record(string(key))
		results[i] = front.GetResult{Value: r.Value, Version: r.Version, Err: s.store.operationError}
	}
	return len(keys)
}

func (s *memorySession) Lock(keys ...string) func() {
	sorted := slices.Compact(slices.Sorted(slices.Values(keys)))
	var held []*sync.Mutex
	for _, key := range sorted {
		s.store.mu.Lock()
		lock := s.store.locks[key]
		if lock == nil {
			lock = new(sync.Mutex)
			s.store.locks[key] = lock
		}
		s.store.mu.Unlock()
		lock.Lock()
		held = append(held, lock)
	}
	return func() {
		for _, lock := range held {
			lock.Unlock()
		}
	}
}

// FindEach implements front.Session.
func (s *memorySession) FindEach([]string) {}

// ExecuteAsync implements front.Session: nothing is executed.
func (s *memorySession) ExecuteAsync(string, operation.Operation, bool) func() (operation.Outcome, bool, error) {
	return func() (operation.Outcome, bool, error) { return operation.Outcome{}, false, nil }
}

// IsExact implements front.Session.
func (s *memorySession) IsExact() bool { return s.store.exact }

// Line implements front.Session.
func (s *memorySession) Line() uint64 { return uint64(oneIf(s.store.exact)) }

// Level implements front.Session.
func (s *memorySession) Level() causal.Level { return s.level.Or(causal.Latest) }

// SetLevel implements front.Session.
func (s *memorySession) SetLevel(level causal.Level) error {
	if level == causal.Local {
		return front.Errorf(front.Refused, "no home")
	}
	s.level = level
	return nil
}

// Isolate does not keep others from reading: a test of package node is about that.
func (s *memorySession) Isolate(keys ...string) func() { return s.Lock(keys...) }

func (s *memorySession) Newest(_ context.Context, keys []string) ([]causal.Record, error) {
	records := make([]causal.Record, len(keys))
	for i, key := range keys {
		s.store.hook("newest", key)
		records[i] = s.store.record(key)
	}
	return records, s.store.operationError
}

// living returns the sorted names of values that are no tombstones.
func (m *memory) living() (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, v := range m.values {
		if !v.Tombstone {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Scan takes the position in the list of all names as the cursor. A scan sorts them when it begins.
func (s *memorySession) Scan(_ context.Context, cursor uint64, limit int) ([]string, uint64, error) {
	if cursor == 0 {
		s.names = append(s.store.living(), s.store.deleted...)
	}
	from := min(int(cursor), len(s.names))
	to := min(from+limit, len(s.names))
	if to == len(s.names) {
		return s.names[from:], 0, s.store.operationError
	}
	return s.names[from:to], uint64(to), s.store.operationError
}

func (s *memorySession) Token(context.Context) (string, error) {
	return "a token", s.store.operationError
}

func (s *memorySession) Resume(_ context.Context, token string) error {
	if token != "a token" {
		return front.Errorf(front.Refused, "cannot resume: %s is no token", token)
	}
	return s.store.operationError
}

// AwaitWrites takes the writes of the session to be in ring eu, and in no other one before an hour has passed.
func (s *memorySession) AwaitWrites(_ context.Context, ring string, timeout time.Duration) (bool, error) {
	switch ring {
	case "eu":
		return true, nil
	case "us", front.AllRings:
		return timeout == time.Hour, nil
	}
	return false, front.Errorf(front.Refused, "there is no ring '%s'", ring)
}

func (s *memorySession) Place() front.Place {
	return front.Place{DataCenter: "eu-1", Ring: "eu", Scope: "Pod", TopologyEpoch: 7}
}

func (s *memorySession) Status() front.Status {
	return front.Status{Restrictions: 2, Rings: []string{"eu", "us"}, IncompleteWrites: 3,
		StabilityLag: 250 * time.Millisecond}
}

func (s *memorySession) Last() front.Outcome {
	return front.Outcome{Version: causal.Version{HLC: 5, Origin: 1}, Source: "cache", Status: causal.Stable}
}

func (s *memorySession) CountNames(context.Context) (int64, error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	n := int64(0)
	for _, v := range s.store.values {
		if !v.Tombstone {
			n++
		}
	}
	return n, s.store.operationError
}

func (s *memorySession) Close() {
	s.store.closed.Add(1)
	s.store.hook("close", "")
}

var errNotReady = errors.New("the session is starting")

// CommitsInOrder implements front.Session.
func (s *memorySession) CommitsInOrder(keys []string) int {
	if s.store.inOrder == nil {
		return 1
	}
	return s.store.inOrder(keys)
}

// CommitInOrder implements front.Session.
func (s *memorySession) CommitInOrder(ctx context.Context, puts []front.Write, read []string) error {
	return s.Commit(ctx, puts, read)
}

// Commit implements front.Session.
func (s *memorySession) Commit(_ context.Context, puts []front.Write, read []string) error {
	if !s.store.exact {
		return errors.New("this session is not exact")
	}
	m := s.store
	m.mu.Lock()
	m.commits = append(m.commits, memoryCommit{puts: puts, read: read})
	m.mu.Unlock()
	for _, p := range puts {
		if err := m.refuses(p.Key); err != nil {
			return err
		}
	}
	for _, p := range puts {
		m.put(p.Key, p.Value)
	}
	return m.operationError
}

// memoryWaiting looks at every write of the store, and from time to time.
type memoryWaiting struct {
	turns chan front.Turn
	timer *time.Timer
}

// Await implements front.Session.
func (s *memorySession) Await([]string) front.Waiting {
	w := &memoryWaiting{turns: make(chan front.Turn, 1)}
	w.timer = time.AfterFunc(5*time.Millisecond, func() { w.turns <- front.Turn{Told: true} })
	return w
}

// Turns implements front.Waiting.
func (w *memoryWaiting) Turns() <-chan front.Turn { return w.turns }

// Looked implements front.Waiting.
func (w *memoryWaiting) Looked(bool) { w.timer.Reset(5 * time.Millisecond) }

// End implements front.Waiting.
func (w *memoryWaiting) End() { w.timer.Stop() }
