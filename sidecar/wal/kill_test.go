package wal

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// childDir is an environment variable. If it is set, the test binary appends to the log in that directory until it is
// killed.
const childDir = "CAUSALSTORE_WAL_TEST_DIR"

var killOptions = Options{SegmentBytes: 64 << 10, MaxBytes: 256 << 20}

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := appendUntilKilled(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// appendUntilKilled prints "shown index id" for each replayed record, and for each record that it appends "try id"
// before and "ack index id" after the append.
func appendUntilKilled(dir string) error {
	l, err := Open(dir, killOptions)
	if err != nil {
		return err
	}
	err = l.Replay(func(index uint64, p []byte) error {
		id, ok := idOf(p)
		if !ok {
			return fmt.Errorf("record %d was never written", index)
		}
		_, err := fmt.Printf("shown %d %d\n", index, id)
		return err
	})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for range 4 {
		go func() {
			for {
				ids := make([]uint64, 1+rand.IntN(4))
				payloads := make([][]byte, len(ids))
				for i := range ids {
					ids[i] = rand.Uint64()
					payloads[i] = payloadOf(ids[i], int(ids[i]%500))
					fmt.Printf("try %d\n", ids[i])
				}
				last, err := l.Append(payloads)
				if err != nil {
					failed <- err
					return
				}
				for i, id := range ids {
					fmt.Printf("ack %d %d\n", last-uint64(len(ids)-1-i), id)
				}
			}
		}()
	}
	return <-failed
}

func TestKill9LosesNoAcknowledgedRecord(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	dir := t.TempDir()
	g := newLedger()
	for round := range 15 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childDir+"="+dir)
		var stderr strings.Builder
		child.Stderr = &stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		acks, killAfter, killed := 0, r.IntN(600), false
		for lines.Scan() {
			var index, id uint64
			switch line := lines.Text(); {
			case scan(line, "try %d", &id):
				g.tried[id] = true
			case scan(line, "ack %d %d", &index, &id):
				g.acknowledge(t, index, []uint64{id})
				acks++
			case scan(line, "shown %d %d", &index, &id):
				if want, ok := g.acked[index]; ok && want != id || !g.tried[id] {
					t.Fatalf("round %d: the process replayed %d as record %d, and %d was acknowledged", round, id,
						index, want)
				}
				g.acked[index] = id
			}
			if acks >= killAfter && !killed {
				if acks > 0 && round%5 == 0 {
					if _, err := Open(dir, killOptions); err == nil ||
						!strings.Contains(err.Error(), "one coordinator at a time") {
						t.Fatalf("open of a log that another process has open: %v", err)
					}
				}
				killed = true
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := child.Wait(); err == nil || !killed || stderr.Len() > 0 {
			t.Fatalf("round %d: the process ended before it was killed: %v\n%s", round, err, stderr.String())
		}
		wantRefusedWithoutItsEnd(t, dir, g.last)
		l := mustOpen(t, dir, killOptions)
		g.checkRecovered(t, l, fmt.Sprintf("round %d, killed after %d acknowledgements", round, acks))
		mustClose(t, l)
	}
	if g.last < 1000 {
		t.Fatalf("only %d records were written", g.last)
	}
}

// wantRefusedWithoutItsEnd checks that a log is not opened without the records of its last segment, and puts them back.
func wantRefusedWithoutItsEnd(t *testing.T, dir string, acknowledged uint64) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	if err != nil || len(segments) == 0 {
		t.Fatalf("%v, %v", segments, err)
	}
	path := slices.Max(segments)
	if path > filepath.Join(dir, segmentName(acknowledged)) {
		return // nothing in it was acknowledged
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, segmentHeaderSize); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, killOptions)
	if c := new(CorruptError); !errors.As(err, &c) || c.File != path {
		t.Fatalf("open without the records of %s, acknowledged up to %d: %v", path, acknowledged, err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func scan(line, format string, to ...any) bool {
	n, err := fmt.Sscanf(line, format, to...)
	return err == nil && n == len(to)
}
