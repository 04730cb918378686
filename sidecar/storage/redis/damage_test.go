//go:build unix

package redis

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/lab/redisserver"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// change kills a server, changes the last file of its log, and starts it again. It returns the options for a store on
// it.
func change(t *testing.T, p *redisserver.Server, dir string, opts Options, how func(log []byte) []byte) Options {
	t.Helper()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(logs) == 0 {
		t.Skipf("the server keeps its log in one file, or elsewhere: %v, %v", logs, err)
	}
	last := slices.Max(logs)
	b, err := os.ReadFile(last)
	if err == nil {
		err = os.WriteFile(last, how(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	next := optionsOf(mustStart(t, dir))
	next.Watermark, next.CheckOwner = opts.Watermark, opts.CheckOwner
	return next
}

// filled returns the options for a server with some keys, which was used with a watermark.
func filled(t *testing.T) (p *redisserver.Server, dir string, opts Options) {
	t.Helper()
	dir = t.TempDir()
	p = mustStart(t, dir)
	opts = optionsOf(p)
	opts.Watermark = filepath.Join(t.TempDir(), "acknowledged")
	s := mustOpen(t, opts)
	for i := range 100 {
		mustApply(t, s, set(fmt.Sprint("k", i), strings.Repeat(fmt.Sprint("value ", i), 20)))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return p, dir, opts
}

func same(log []byte) []byte { return log }

func TestOpenDetectsThatTheEndOfTheServersLogIsLost(t *testing.T) {
	p, dir, opts := filled(t)
	opts = change(t, p, dir, opts, same)
	mustOpen(t, opts) // it lacks nothing
	p, dir, opts = filled(t)
	opts = change(t, p, dir, opts, func(log []byte) []byte { return log[:len(log)*2/3] })
	for range 2 {
		if _, err := Open(testContext(t), opts); !errors.Is(err, storage.ErrDataLost) ||
			!strings.Contains(err.Error(), "was acknowledged up to") {
			t.Fatalf("got %v", err)
		}
	}
	s, err := Renew(testContext(t), opts, func(s storage.Store) ([]storage.Meta, error) {
		_, found, err := s.Meta(testContext(t), "mark")
		if found {
			t.Error("it is marked already")
		}
		return []storage.Meta{{Name: "mark", Value: []byte("lost")}}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	mustApply(t, s, set("new", "v"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, opts)
	if b, _, err := s.Meta(testContext(t), "mark"); string(b) != "lost" || err != nil {
		t.Errorf("the mark is %q, %v", b, err)
	}
	wantData(t, s, "new", "v")
}

func TestOpenDetectsThatTheServerWasEmptied(t *testing.T) {
	p, _, opts := filled(t)
	do(t, rawClient(t, p), "FLUSHALL")
	if _, err := Open(testContext(t), opts); !errors.Is(err, storage.ErrDataLost) {
		t.Fatalf("got %v", err)
	}
	if s, err := Renew(testContext(t), opts, func(storage.Store) ([]storage.Meta, error) {
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	} else if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, opts)
}

func TestOpenNeedsTheWatermarkOnceThereIsOne(t *testing.T) {
	_, _, opts := filled(t)
	without := opts
	without.Watermark = ""
	mustOpen(t, without)
	if err := os.Remove(opts.Watermark); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(testContext(t), opts); !errors.Is(err, storage.ErrDataLost) ||
		!strings.Contains(err.Error(), "is gone") {
		t.Fatalf("got %v", err)
	}
}

func TestAServerOfAnEarlierVersionGetsAWatermark(t *testing.T) {
	p := mustStart(t, t.TempDir())
	opts := optionsOf(p)
	mustApply(t, mustOpen(t, opts), set("k", "v"))
	opts.Watermark = filepath.Join(t.TempDir(), "acknowledged")
	wantData(t, mustOpen(t, opts), "k", "v")
	wantData(t, mustOpen(t, opts), "k", "v")
	do(t, rawClient(t, p), "FLUSHALL")
	if _, err := Open(testContext(t), opts); !errors.Is(err, storage.ErrDataLost) {
		t.Fatalf("got %v", err)
	}
}

// The server is marked once the file is there: a mark without a file says that the file was removed, and that data may
// be lost.
func TestAWatermarkThatCannotBeWrittenLosesNothing(t *testing.T) {
	p := mustStart(t, t.TempDir())
	opts := optionsOf(p)
	mustApply(t, mustOpen(t, opts), set("k", "v"))
	dir := t.TempDir()
	opts.Watermark = filepath.Join(dir, "missing", "acknowledged")
	if _, err := Open(testContext(t), opts); err == nil || errors.Is(err, storage.ErrDataLost) {
		t.Fatalf("got %v", err)
	}
	opts.Watermark = filepath.Join(dir, "acknowledged")
	wantData(t, mustOpen(t, opts), "k", "v")
}

func TestADamagedValueIsNotReturned(t *testing.T) {
	for name, call := range map[string]func(*Store) error{
		"get": func(s *Store) error { _, _, err := s.Get(testContext(t), "k7"); return err },
		"get many": func(s *Store) error {
			_, err := s.GetMany(testContext(t), []string{"k6", "k7"}, 1<<20)
			return err
		},
		"scan": func(s *Store) error {
			return s.Scan(testContext(t), func(string, causal.Record) error {
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, dir, opts := filled(t)
			opts = change(t, p, dir, opts, func(log []byte) []byte {
				at := bytes.Index(log, []byte("value 7value 7"))
				log[at+8] ^= 4
				return log
			})
			s := mustOpen(t, opts)
			for range 2 {
				if err := call(s); !errors.Is(err, storage.ErrDataLost) || errors.Is(err, storage.ErrForeign) {
					t.Fatalf("got %v", err)
				}
			}
			if err := s.Apply(testContext(t), set("k7", "w")); !errors.Is(err, storage.ErrDataLost) {
				t.Errorf("a write after that: %v", err)
			}
			if err := s.SetMeta(testContext(t), "data-lost", []byte{1}); err != nil {
				t.Errorf("a mark after that: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(testContext(t), opts); !errors.Is(err, storage.ErrDataLost) {
				t.Errorf("the next open says %v", err)
			}
		})
	}
}

// Once somebody has accepted their loss, damaged records are removed, and no others.
func TestDamagedRecordsAreDroppedAlone(t *testing.T) {
	p, dir, opts := filled(t)
	opts = change(t, p, dir, opts, func(log []byte) []byte {
		at := bytes.Index(log, []byte("value 7value 7"))
		log[at+3] ^= 2
		return log
	})
	s := mustOpen(t, opts)
	if _, _, err := s.Get(testContext(t), "k7"); !errors.Is(err, storage.ErrDataLost) {
		t.Fatalf("the damaged record: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Renew(testContext(t), opts, func(storage.Store) ([]storage.Meta, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, want := range []int64{1, 0} {
		if n, err := s.DropDamaged(testContext(t)); n != want || err != nil {
			t.Errorf("time %d: %d are dropped, %v", i, n, err)
		}
	}
	for i := range 100 {
		if _, found, err := s.Get(testContext(t), fmt.Sprint("k", i)); found == (i == 7) || err != nil {
			t.Errorf("k%d: %v, %v", i, found, err)
		}
	}
}
