//go:build unix

package redis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// restart kills the server and starts another one on the same data.
func restart(t *testing.T, p *Process, dir string) *Process {
	t.Helper()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	return mustSpawn(t, dir)
}

func TestARestartIsReportedOnceByWhicheverCallComesFirst(t *testing.T) {
	for name, call := range map[string]func(*testing.T, *Store) error{
		"get": func(t *testing.T, s *Store) error { _, _, err := s.Get(testContext(t), "k"); return err },
		"get many": func(t *testing.T, s *Store) error {
			_, err := s.GetMany(testContext(t), []string{"k", "l"})
			return err
		},
		"apply":    func(t *testing.T, s *Store) error { return s.Apply(testContext(t), set("k", "v")) },
		"set meta": func(t *testing.T, s *Store) error { return s.SetMeta(testContext(t), "k", nil) },
		"meta":     func(t *testing.T, s *Store) error { _, _, err := s.Meta(testContext(t), "k"); return err },
		"len":      func(t *testing.T, s *Store) error { _, err := s.Len(testContext(t)); return err },
		"scan": func(t *testing.T, s *Store) error {
			return s.Scan(testContext(t), func(string, causal.Record) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			p := mustSpawn(t, dir)
			opts := p.Options()
			var told atomic.Int32
			opts.OnRestart = func() { told.Add(1) }
			s := mustOpen(t, opts)
			mustApply(t, s, set("k", "v"))
			wantData(t, s, "k", "v")
			before := s.RunID()
			restart(t, p, dir)
			if err := s.Ping(testContext(t)); !errors.Is(err, storage.ErrRestarted) || told.Load() != 0 {
				t.Errorf("ping: got %v, told %d times", err, told.Load())
			}
			if err := call(t, s); !errors.Is(err, storage.ErrRestarted) {
				t.Errorf("first call after the restart: got %v", err)
			}
			if err := call(t, s); err != nil {
				t.Errorf("second call after the restart: %v", err)
			}
			wantData(t, s, "k", "v")
			mustApply(t, s, set("k", "w"))
			wantData(t, s, "k", "w")
			if told.Load() != 1 || s.RunID() == before {
				t.Errorf("told %d times; run_id %s, before %s", told.Load(), s.RunID(), before)
			}
		})
	}
}

func TestADeadServerIsAnErrorUntilItIsBack(t *testing.T) {
	dir := t.TempDir()
	p := mustSpawn(t, dir)
	s := mustOpen(t, p.Options())
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Apply(testContext(t), set("k", "v")); err == nil || errors.Is(err, storage.ErrRestarted) || !strings.Contains(err.Error(), p.Socket) {
			t.Errorf("apply: got %v", err)
		}
		if _, _, err := s.Get(testContext(t), "k"); err == nil || errors.Is(err, storage.ErrRestarted) {
			t.Errorf("get: got %v", err)
		}
	}
	mustSpawn(t, dir)
	if err := s.Apply(testContext(t), set("k", "v")); !errors.Is(err, storage.ErrRestarted) {
		t.Errorf("got %v, want ErrRestarted", err)
	}
	mustApply(t, s, set("k", "v"))
}

func TestAServerThatComesBackWithUnsafeSettingsIsRefused(t *testing.T) {
	dir := t.TempDir()
	p := mustSpawn(t, dir)
	s := mustOpen(t, p.Options())
	p = restart(t, p, dir)
	raw := rawClient(t, p)
	do(t, raw, "CONFIG", "SET", "appendfsync", "everysec")
	for range 2 {
		if _, _, err := s.Get(testContext(t), "k"); err == nil || !strings.Contains(err.Error(), "appendfsync") {
			t.Errorf("get: got %v", err)
		}
	}
	do(t, raw, "CONFIG", "SET", "appendfsync", "always")
	if _, _, err := s.Get(testContext(t), "k"); !errors.Is(err, storage.ErrRestarted) {
		t.Errorf("got %v, want ErrRestarted", err)
	}
}

func TestADataLossWithoutARestartIsReported(t *testing.T) {
	p := mustSpawn(t, t.TempDir())
	s := mustOpen(t, p.Options())
	mustApply(t, s, set("k", "v"))
	do(t, rawClient(t, p), "FLUSHALL")
	if err := s.Apply(testContext(t), set("l", "v")); !errors.Is(err, storage.ErrRestarted) {
		t.Errorf("got %v, want ErrRestarted", err)
	}
	mustApply(t, s, set("l", "w"))
	wantData(t, s, "l", "w")
}

func TestABrokenConnectionIsNoRestart(t *testing.T) {
	p := mustSpawn(t, t.TempDir())
	s, raw := mustOpen(t, p.Options()), rawClient(t, p)
	for i := range 5 {
		do(t, raw, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		mustApply(t, s, set("k", strconv.Itoa(i)))
		wantData(t, s, "k", strconv.Itoa(i))
	}
}

func TestWhatWasReadBeforeARestartDoesNotCountAfterIt(t *testing.T) {
	dir := t.TempDir()
	p := mustSpawn(t, dir)
	s := mustOpen(t, p.Options())
	before := s.link.Load()
	restart(t, p, dir)
	if _, err := s.Len(testContext(t)); !errors.Is(err, storage.ErrRestarted) {
		t.Fatalf("got %v, want ErrRestarted", err)
	}
	if err := s.settle(testContext(t), before, "get", nil); !errors.Is(err, storage.ErrRestarted) {
		t.Errorf("a slow answer from before the restart: got %v, want ErrRestarted", err)
	}
}

func TestAReconnectionChecksTheSettingsAgain(t *testing.T) {
	p := mustSpawn(t, t.TempDir())
	s, raw := mustOpen(t, p.Options()), rawClient(t, p)
	do(t, raw, "CONFIG", "SET", "appendfsync", "everysec")
	do(t, raw, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	if err := s.Apply(testContext(t), set("k", "v")); err == nil || !strings.Contains(err.Error(), "appendfsync") {
		t.Errorf("got %v", err)
	}
	do(t, raw, "CONFIG", "SET", "appendfsync", "always")
	mustApply(t, s, set("k", "v"))
}

func TestAPrimaryThatBecomesAReplicaIsAnErrorUntilItIsPromoted(t *testing.T) {
	p := mustSpawn(t, t.TempDir())
	s, raw := mustOpen(t, p.Options()), rawClient(t, p)
	do(t, raw, "REPLICAOF", "127.0.0.1", "1")
	for _, want := range []string{"READONLY", "give the address of the primary"} {
		if err := s.Apply(testContext(t), set("k", "v")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	do(t, raw, "REPLICAOF", "NO", "ONE")
	mustApply(t, s, set("k", "v"))
	wantData(t, s, "k", "v")
}

func TestFullMemoryIsAnErrorAndNothingIsLost(t *testing.T) {
	p := mustSpawn(t, t.TempDir())
	s, raw := mustOpen(t, p.Options()), rawClient(t, p)
	mustApply(t, s, set("k", "v"))
	do(t, raw, "CONFIG", "SET", "maxmemory", "1")
	if err := s.Apply(testContext(t), set("k", "w")); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("got %v", err)
	}
	wantData(t, s, "k", "v")
	do(t, raw, "CONFIG", "SET", "maxmemory", "0")
	mustApply(t, s, set("k", "w"))
	wantData(t, s, "k", "w")
}

func TestASecondStoreTakesOverAndTheFirstIsFenced(t *testing.T) {
	p := mustSpawn(t, t.TempDir())
	first := mustOpen(t, p.Options())
	mustApply(t, first, set("k", "first"))
	second := mustOpen(t, p.Options())
	mustApply(t, second, set("k", "second"))
	for range 2 {
		if err := first.Apply(testContext(t), set("k", "late")); !errors.Is(err, storage.ErrFenced) {
			t.Errorf("apply: got %v, want ErrFenced", err)
		}
		if _, _, err := first.Get(testContext(t), "k"); !errors.Is(err, storage.ErrFenced) {
			t.Errorf("get: got %v, want ErrFenced", err)
		}
	}
	wantData(t, second, "k", "second")
	mustApply(t, second, set("k", "still mine"))
	wantData(t, second, "k", "still mine")
}

// TestWhatApplyAcknowledgedSurvivesAKill kills the server at random moments while batches are applied.
func TestWhatApplyAcknowledgedSurvivesAKill(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	p := mustSpawn(t, dir)
	s := mustOpen(t, p.Options())
	sure := make(map[string]string) // what is acknowledged
	for round := range 6 {
		maybe := make(map[string]string) // the batch whose outcome is unknown
		stop := make(chan error, 1)
		after := int32(rng.IntN(200))
		var applied atomic.Int32
		go func() {
			for applied.Load() < after {
				pause(testContext(t))
			}
			stop <- p.Kill()
		}()
		for i := 0; ; i++ {
			var batch []storage.Write
			value := fmt.Sprintf("%d.%d", round, i)
			clear(maybe)
			for range 1 + rng.IntN(4) {
				key := strconv.Itoa(rng.IntN(30))
				batch = append(batch, set(key, value)...)
				maybe[key] = value
			}
			if err := s.Apply(testContext(t), batch); err != nil {
				break
			}
			applied.Add(1)
			for key, value := range maybe {
				sure[key] = value
			}
		}
		if err := <-stop; err != nil {
			t.Fatal(err)
		}
		p = mustSpawn(t, dir)
		if _, _, err := s.Get(testContext(t), "0"); !errors.Is(err, storage.ErrRestarted) {
			t.Fatalf("got %v, want ErrRestarted", err)
		}
		torn := 0
		for key := range maybe {
			rec, _, err := s.Get(testContext(t), key)
			if err != nil {
				t.Fatal(err)
			}
			if string(rec.Value.Data) == maybe[key] {
				torn++
				sure[key] = maybe[key]
			}
		}
		if torn != 0 && torn != len(maybe) {
			t.Errorf("round %d: %d of %d writes of one batch are there", round, torn, len(maybe))
		}
		for key, value := range sure {
			wantData(t, s, key, value)
		}
	}
}

func TestAPingTellsAStoreThatNeverWritesThatAnotherOneHasTakenOver(t *testing.T) {
	p := mustSpawn(t, t.TempDir())
	first := mustOpen(t, p.Options())
	if err := first.Ping(testContext(t)); err != nil {
		t.Fatal(err)
	}
	second := mustOpen(t, p.Options())
	if err := first.Ping(testContext(t)); !errors.Is(err, storage.ErrFenced) {
		t.Errorf("ping: got %v, want ErrFenced", err)
	}
	if _, _, err := first.Get(testContext(t), "k"); !errors.Is(err, storage.ErrFenced) {
		t.Errorf("get after it: got %v, want ErrFenced", err)
	}
	if err := second.Ping(testContext(t)); err != nil {
		t.Errorf("ping of the second: %v", err)
	}
}
