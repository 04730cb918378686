package redis

import (
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

func doubtful(s *Store, keys ...string) int { return len(s.sizes.mayBeLarge(keys)) }

func TestAStoreAsksForTheSizesOfValuesFromBeforeItWasOpenedUntilItHasScannedThem(t *testing.T) {
	p := mustStart(t, t.TempDir())
	s := mustOpen(t, optionsOf(p))
	if n := doubtful(s, "small", "large"); n != 0 {
		t.Errorf("of an empty server, %d sizes are in doubt", n)
	}
	mustApply(t, s, set("small", "v"))
	mustApply(t, s, set("large", strings.Repeat("v", smallValue)))
	if doubtful(s, "small") != 0 || doubtful(s, "large") != 1 {
		t.Error("it does not know what it has written")
	}
	later := mustOpen(t, optionsOf(p))
	if n := doubtful(later, "small", "large"); n != 2 {
		t.Errorf("of a server with data, %d sizes are in doubt, want 2", n)
	}
	if err := later.Scan(testContext(t), func(string, causal.Record) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if doubtful(later, "small") != 0 || doubtful(later, "large") != 1 {
		t.Error("a scan has not settled it")
	}
}

func TestAValueThatWasReplacedBySomethingSmallIsSmall(t *testing.T) {
	s := mustOpen(t, optionsOf(mustStart(t, t.TempDir())))
	large := strings.Repeat("v", 2*smallValue)
	mustApply(t, s, append(set("a", large), set("b", large)...))
	mustApply(t, s, append(set("a", "v"), storage.Write{Key: "b", Delete: true}))
	if n := doubtful(s, "a", "b"); n != 0 {
		t.Errorf("%d sizes are in doubt", n)
	}
	mustApply(t, s, append(set("a", "v"), set("a", large)...))
	mustApply(t, s, append(set("b", large), set("b", "v")...))
	if doubtful(s, "a") != 1 || doubtful(s, "b") != 0 {
		t.Error("of two writes of a key in a batch, the last one counts")
	}
}

func TestTheLargeKeysThatAreRememberedAreBounded(t *testing.T) {
	var s sizes
	for i := range maxLargeKeys + 1 {
		s.noteLarge(string([]byte{byte(i), byte(i >> 8), byte(i >> 16)}))
	}
	if s.large != nil || len(s.mayBeLarge([]string{"x"})) != 1 {
		t.Error("beyond the bound not every size is in doubt")
	}
	s.noteScanned()
	if len(s.mayBeLarge([]string{"x"})) != 1 {
		t.Error("a scan remembers more than the bound")
	}
}
