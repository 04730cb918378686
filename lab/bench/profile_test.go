package bench

import (
	"bytes"
	"hash/crc32"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"
)

// spin uses CPU time that a profile shows under its name.
//
//go:noinline
func spin(until time.Time) (sum uint32) {
	b := bytes.Repeat([]byte{1}, 4096)
	for time.Now().Before(until) {
		for range 100 {
			sum ^= crc32.ChecksumIEEE(b)
		}
	}
	return sum
}

func TestProfileAttributesSamplesToTheFunctionThatRan(t *testing.T) {
	// Samples of spin in which the runtime does something of its own (collects, allocates, schedules) have layers of
	// their own.
	counts := func(s stack) bool {
		i := slices.IndexFunc(s.functions, func(f string) bool { return strings.HasSuffix(f, "/bench.spin") })
		return i >= 0 && !slices.ContainsFunc(s.functions[:i], func(f string) bool {
			return strings.HasPrefix(f, "runtime.")
		})
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		var b bytes.Buffer
		if err := pprof.StartCPUProfile(&b); err != nil {
			t.Fatal(err)
		}
		spin(time.Now().Add(300 * time.Millisecond))
		pprof.StopCPUProfile()
		stacks, err := parseProfile(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, s := range stacks {
			if !counts(s) {
				continue
			}
			found = true
			if s.nanos <= 0 || layerOf(s.functions) != "bench" {
				t.Errorf("a sample of spin has %d ns and counts for %q: %v", s.nanos, layerOf(s.functions), s.functions)
			}
		}
		if found {
			return
		}
		if time.Now().After(deadline) { // a busy machine may have given this process no time for a while
			t.Fatalf("no sample of spin among %d", len(stacks))
		}
	}
}

func TestParseProfileRefusesDamagedProfiles(t *testing.T) {
	for _, b := range []string{"", "no gzip", "\x1f\x8b\x08"} {
		if _, err := parseProfile([]byte(b)); err == nil {
			t.Errorf("parseProfile accepts %q", b)
		}
	}
}

func TestLayerOfAttributesTimeToTheLayerThatUsedIt(t *testing.T) {
	const m = module + "sidecar/"
	for _, c := range []struct {
		stack string // leaf first
		want  string
	}{
		{"runtime.memmove " + m + "front/resp.(*writer).bulk " + m + "front/resp.get", "front"},
		{"internal/runtime/syscall/linux.Syscall6 syscall.write net.(*conn).Write " + m +
			"front/resp.(*connection).send", "client socket syscalls"},
		{"internal/runtime/syscall/linux.Syscall6 syscall.Fsync os.(*File).Sync " + m + "wal.(*Log).writeGroup " + m +
			"node.(*Coordinator).write", "log syscalls"},
		{"internal/runtime/syscall/linux.Syscall6 syscall.write github.com/redis/go-redis/v9.x " + m +
			"storage/redis.fetch", "storage syscalls"},
		{"runtime.mapaccess1 " + m + "causal.(*Sidecar).sweep " + m + "node.(*Host).do", "causal"},
		{"runtime.memclr runtime.mallocgc runtime.newobject " + m + "causal.(*Coordinator).put", "allocation"},
		{"runtime.scanObject runtime.gcDrain runtime.gcBgMarkWorker", "GC"},
		{"runtime.futex runtime.findRunnable runtime.schedule runtime.mcall", "scheduler"},
		{"internal/sync.(*Mutex).Lock sync.(*Mutex).Lock " + m + "node.(*Host).do", "node"},
		{"time.runtimeNow time.Now " + module + "lab/local.Start.NewClock.func1", "local"},
		{"hash/crc32.ieeeCLMUL hash/crc32.archUpdateIEEE hash/crc32.ChecksumIEEE " + m + "wal.(*Log).append", "wal"},
		{
			"internal/runtime/syscall/linux.Syscall6 syscall.Fsync " +
				"github.com/cockroachdb/pebble/v2/vfs.(*unixFile).Sync " + m + "wal.(*Log).writeGroup", "log syscalls",
		},
		{m + "causal/session.(*Session).get " + m + "node.(*Host).do", "causal"},
		{module + "main.main", "main"},
		{"runtime.nanotime", "runtime"},
	} {
		if got := layerOf(strings.Fields(c.stack)); got != c.want {
			t.Errorf("%s: %q, want %q", c.stack, got, c.want)
		}
	}
}
