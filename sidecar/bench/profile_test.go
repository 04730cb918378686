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

func TestProfilesShowWhatHasRun(t *testing.T) {
	seen := func(s stack) bool {
		return slices.ContainsFunc(s.functions, func(f string) bool { return strings.HasSuffix(f, "/bench.spin") })
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
		if i := slices.IndexFunc(stacks, seen); i >= 0 {
			if stacks[i].nanos <= 0 || layerOf(stacks[i].functions) != "bench" {
				t.Errorf("a sample of spin has %d ns and counts for %q: %v", stacks[i].nanos, layerOf(stacks[i].functions), stacks[i].functions)
			}
			return
		}
		if time.Now().After(deadline) { // the machine may have given this process no time for a while
			t.Fatalf("no sample of spin among %d", len(stacks))
		}
	}
}

func TestDamagedProfilesAreRefused(t *testing.T) {
	for _, b := range []string{"", "no gzip", "\x1f\x8b\x08"} {
		if _, err := parseProfile([]byte(b)); err == nil {
			t.Errorf("%q is taken for a profile", b)
		}
	}
}

func TestTimeCountsForTheLayerThatUsedIt(t *testing.T) {
	const m = module
	for _, c := range []struct {
		stack string // leaf first
		want  string
	}{
		{"runtime.memmove " + m + "resp.(*writer).bulk " + m + "resp.get", "resp"},
		{"internal/runtime/syscall/linux.Syscall6 syscall.write net.(*conn).Write " + m + "resp.(*connection).send", "client socket syscalls"},
		{"internal/runtime/syscall/linux.Syscall6 syscall.Fsync os.(*File).Sync " + m + "wal.(*Log).writeGroup " + m + "node.(*Coordinator).write", "log syscalls"},
		{"internal/runtime/syscall/linux.Syscall6 syscall.write github.com/redis/go-redis/v9.x " + m + "storage/redis.fetch", "storage syscalls"},
		{"runtime.mapaccess1 " + m + "causal.(*Sidecar).sweep " + m + "node.(*Host).do", "causal"},
		{"runtime.memclr runtime.mallocgc runtime.newobject " + m + "causal.(*Coordinator).put", "allocation"},
		{"runtime.scanObject runtime.gcDrain runtime.gcBgMarkWorker", "GC"},
		{"runtime.futex runtime.findRunnable runtime.schedule runtime.mcall", "scheduler"},
		{"internal/sync.(*Mutex).Lock sync.(*Mutex).Lock " + m + "node.(*Host).do", "node"},
		{"time.runtimeNow time.Now " + m + "local.Start.NewClock.func1", "local"},
		{"runtime.nanotime", "runtime"},
	} {
		if got := layerOf(strings.Fields(c.stack)); got != c.want {
			t.Errorf("%s: %q, want %q", c.stack, got, c.want)
		}
	}
}
