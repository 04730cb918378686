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

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/redisserver"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// restart kills the server and starts another one with the same data.
func restart(t *testing.T, p *redisserver.Server, dir string) *redisserver.Server {
	t.Helper()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	return mustStart(t, dir)
}

func TestRestartIsReportedOnceByTheFirstCall(t *testing.T) {
	for name, call := range map[string]func(*testing.T, *Store) error{
		"get": func(t *testing.T, s *Store) error { _, _, err := s.Get(testContext(t), "k"); return err },
		"get many": func(t *testing.T, s *Store) error {
			_, err := s.GetMany(testContext(t), []string{"k", "l"}, 1<<20)
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
			p := mustStart(t, dir)
			s := mustOpen(t, optionsOf(p))
			mustApply(t, s, set("k", "v"))
			wantData(t, s, "k", "v")
			before := s.link.Load()
			restart(t, p, dir)
			if err := s.Ping(testContext(t)); !errors.Is(err, storage.ErrRestarted) || s.link.Load() != before {
				t.Errorf("ping: got %v; it must not reconnect, so that another call reports the restart", err)
			}
			if err := call(t, s); !errors.Is(err, storage.ErrRestarted) {
				t.Errorf("first call after the restart: got %v", err)
			}
			after := s.link.Load()
			if err := call(t, s); err != nil {
				t.Errorf("second call after the restart: %v", err)
			}
			wantData(t, s, "k", "v")
			mustApply(t, s, set("k", "w"))
			wantData(t, s, "k", "w")
			if s.link.Load() != after || after.runID == before.runID {
				t.Errorf("the store reconnected again, or to the same server: run_id %s, before %s", after.runID,
					before.runID)
			}
		})
	}
}

func TestCallsFailUntilADeadServerIsBack(t *testing.T) {
	dir := t.TempDir()
	p := mustStart(t, dir)
	s := mustOpen(t, optionsOf(p))
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Apply(testContext(t), set("k", "v")); err == nil || errors.Is(err, storage.ErrRestarted) ||
			!strings.Contains(err.Error(), p.Socket) {
			t.Errorf("apply: got %v", err)
		}
		if _, _, err := s.Get(testContext(t), "k"); err == nil || errors.Is(err, storage.ErrRestarted) {
			t.Errorf("get: got %v", err)
		}
	}
	mustStart(t, dir)
	if err := s.Apply(testContext(t), set("k", "v")); !errors.Is(err, storage.ErrRestarted) {
		t.Errorf("got %v, want ErrRestarted", err)
	}
	mustApply(t, s, set("k", "v"))
}

func TestServerThatRestartsWithUnsafeSettingsIsRefused(t *testing.T) {
	dir := t.TempDir()
	p := mustStart(t, dir)
	s := mustOpen(t, optionsOf(p))
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

func TestDataLossWithoutARestartIsReported(t *testing.T) {
	p := mustStart(t, t.TempDir())
	s := mustOpen(t, optionsOf(p))
	mustApply(t, s, set("k", "v"))
	do(t, rawClient(t, p), "FLUSHALL")
	if err := s.Apply(testContext(t), set("l", "v")); !errors.Is(err, storage.ErrDataLost) {
		t.Errorf("got %v, want ErrDataLost", err)
	}
}

func TestNothingIsReadFromAServerThatHasLostData(t *testing.T) {
	for name, lose := range map[string]func(raw *goredis.Client){
		"flushed":                func(raw *goredis.Client) { do(t, raw, "FLUSHALL") },
		"its metadata deleted":   func(raw *goredis.Client) { do(t, raw, "DEL", metaKey) },
		"set back to older data": func(raw *goredis.Client) { do(t, raw, "HSET", metaKey, canaryField, "1") },
		"evicted": func(raw *goredis.Client) {
			do(t, raw, "CONFIG", "SET", "maxmemory-policy", "allkeys-random")
			do(t, raw, "CONFIG", "SET", "maxmemory", "1")
			do(t, raw, "CONFIG", "SET", "maxmemory", "0")
		},
	} {
		for _, call := range []string{"get", "get many", "ping"} {
			t.Run(name+", "+call, func(t *testing.T) {
				p := mustStart(t, t.TempDir())
				s := mustOpen(t, optionsOf(p))
				for i := range 200 {
					mustApply(t, s, set(fmt.Sprint("k", i), "v"))
				}
				raw := rawClient(t, p)
				lose(raw)
				do(t, raw, "DEL", "k1")
				var err error
				switch call {
				case "get":
					_, _, err = s.Get(testContext(t), "k1")
				case "get many":
					_, err = s.GetMany(testContext(t), []string{"k0", "k1"}, 1<<20)
				default:
					err = s.Ping(testContext(t))
				}
				if !errors.Is(err, storage.ErrDataLost) {
					t.Errorf("got %v, want ErrDataLost", err)
				}
				if _, _, err := s.Get(testContext(t), "k0"); !errors.Is(err, storage.ErrDataLost) {
					t.Errorf("a later read: got %v, want ErrDataLost", err)
				}
				if err := s.SetMeta(testContext(t), "lost", []byte{1}); err != nil {
					t.Errorf("the loss cannot be recorded: %v", err)
				}
				if v, found, err := s.Meta(testContext(t), "lost"); err != nil || !found || len(v) != 1 {
					t.Errorf("the record of the loss: %v, %v, %v", v, found, err)
				}
			})
		}
	}
}

func TestAServerThatComesBackEmptyOrWithOlderDataIsDetected(t *testing.T) {
	for _, empty := range []bool{true, false} {
		dir := t.TempDir()
		p := mustStart(t, dir)
		s := mustOpen(t, optionsOf(p))
		mustApply(t, s, set("k", "v"))
		raw := rawClient(t, p)
		if empty {
			do(t, raw, "FLUSHALL")
		} else {
			do(t, raw, "HINCRBY", metaKey, canaryField, "-1")
		}
		restart(t, p, dir)
		for range 2 {
			if _, _, err := s.Get(testContext(t), "k"); !errors.Is(err, storage.ErrDataLost) {
				t.Errorf("empty %v: got %v, want ErrDataLost", empty, err)
			}
		}
	}
}

func TestBrokenConnectionIsNotReportedAsARestart(t *testing.T) {
	p := mustStart(t, t.TempDir())
	s, raw := mustOpen(t, optionsOf(p)), rawClient(t, p)
	for i := range 5 {
		do(t, raw, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		mustApply(t, s, set("k", strconv.Itoa(i)))
		wantData(t, s, "k", strconv.Itoa(i))
	}
}

func TestResultReadBeforeARestartIsDiscardedAfterIt(t *testing.T) {
	dir := t.TempDir()
	p := mustStart(t, dir)
	s := mustOpen(t, optionsOf(p))
	before := s.link.Load()
	restart(t, p, dir)
	if _, err := s.Len(testContext(t)); !errors.Is(err, storage.ErrRestarted) {
		t.Fatalf("got %v, want ErrRestarted", err)
	}
	if err := s.callError(testContext(t), before, "get", nil); !errors.Is(err, storage.ErrRestarted) {
		t.Errorf("a late reply from before the restart: got %v, want ErrRestarted", err)
	}
}

func TestReconnectionChecksTheSettingsAgain(t *testing.T) {
	p := mustStart(t, t.TempDir())
	s, raw := mustOpen(t, optionsOf(p)), rawClient(t, p)
	do(t, raw, "CONFIG", "SET", "appendfsync", "everysec")
	do(t, raw, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	if err := s.Apply(testContext(t), set("k", "v")); err == nil || !strings.Contains(err.Error(), "appendfsync") {
		t.Errorf("got %v", err)
	}
	do(t, raw, "CONFIG", "SET", "appendfsync", "always")
	mustApply(t, s, set("k", "v"))
}

func TestWritesFailWhileThePrimaryIsAReplica(t *testing.T) {
	p := mustStart(t, t.TempDir())
	s, raw := mustOpen(t, optionsOf(p)), rawClient(t, p)
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

func TestFullMemoryFailsWritesAndLosesNothing(t *testing.T) {
	p := mustStart(t, t.TempDir())
	s, raw := mustOpen(t, optionsOf(p)), rawClient(t, p)
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

func TestSecondStoreTakesOverAndFencesTheFirst(t *testing.T) {
	p := mustStart(t, t.TempDir())
	first := mustOpen(t, optionsOf(p))
	mustApply(t, first, set("k", "first"))
	second := mustOpen(t, optionsOf(p))
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
	mustApply(t, second, set("k", "second again"))
	wantData(t, second, "k", "second again")
}

// TestKillLosesNoAcknowledgedWriteAndTearsNoBatch kills the server at random moments while batches are applied.
func TestKillLosesNoAcknowledgedWriteAndTearsNoBatch(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	p := mustStart(t, dir)
	s := mustOpen(t, optionsOf(p))
	acknowledged := make(map[string]string)
	for round := range 6 {
		unknown := make(map[string]string) // the batch whose outcome is unknown
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
			clear(unknown)
			for range 1 + rng.IntN(4) {
				key := strconv.Itoa(rng.IntN(30))
				batch = append(batch, set(key, value)...)
				unknown[key] = value
			}
			if err := s.Apply(testContext(t), batch); err != nil {
				break
			}
			applied.Add(1)
			for key, value := range unknown {
				acknowledged[key] = value
			}
		}
		if err := <-stop; err != nil {
			t.Fatal(err)
		}
		p = mustStart(t, dir)
		if _, _, err := s.Get(testContext(t), "0"); !errors.Is(err, storage.ErrRestarted) {
			t.Fatalf("got %v, want ErrRestarted", err)
		}
		torn := 0
		for key := range unknown {
			rec, _, err := s.Get(testContext(t), key)
			if err != nil {
				t.Fatal(err)
			}
			if string(rec.Value.Data) == unknown[key] {
				torn++
				acknowledged[key] = unknown[key]
			}
		}
		if torn != 0 && torn != len(unknown) {
			t.Errorf("round %d: the store has %d of the %d writes of one batch", round, torn, len(unknown))
		}
		for key, value := range acknowledged {
			wantData(t, s, key, value)
		}
	}
}

func TestPingDetectsATakeoverInAStoreThatNeverWrites(t *testing.T) {
	p := mustStart(t, t.TempDir())
	first := mustOpen(t, optionsOf(p))
	if err := first.Ping(testContext(t)); err != nil {
		t.Fatal(err)
	}
	second := mustOpen(t, optionsOf(p))
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
