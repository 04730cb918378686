package conformance

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// names pages through all keys, and calls between after each page.
func (s tester) names(limit int, between func()) map[string]int {
	s.Helper()
	named := map[string]int{}
	after := ""
	for page := 0; ; page++ {
		keys, next, err := s.Keys(s.ctx, after, limit)
		if err != nil || page > 10_000 {
			s.Fatalf("page %d: %v", page, err)
		}
		for _, key := range keys {
			named[key]++
		}
		between()
		if after = next; after == "" {
			return named
		}
	}
}

// keyNames: every key that is there all the time is named, whatever is written and deleted meanwhile.
func keyNames(t *testing.T, p Place) {
	s := open(t, p)
	if got := s.names(10, func() {}); len(got) != 0 {
		t.Errorf("an empty store names %v", got)
	}
	lasting := []string{"", "\x00", "\x00k", "\xff\xff", "a", "a\x00", "ab"}
	for i := range 300 {
		lasting = append(lasting, fmt.Sprint("key", i))
	}
	var writes []storage.Write
	for i, key := range lasting {
		writes = append(writes, set(key, record(i, "v")))
	}
	s.apply(writes...)
	if err := s.SetMeta(s.ctx, "m", []byte("v")); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 7, 1000} {
		n := 0
		got := s.names(limit, func() {
			if n++; n <= 50 {
				s.apply(set(fmt.Sprint("passing", n), record(n, "v")), set(fmt.Sprint("gone", n), record(n, "v")))
				s.apply(remove(fmt.Sprint("gone", n)))
			}
		})
		for _, key := range lasting {
			if got[key] == 0 {
				t.Errorf("in pages of %d, %q is not named", limit, key)
			}
		}
		for key := range got {
			if _, found, err := s.Get(s.ctx, key); (!found || err != nil) && !strings.HasPrefix(key, "gone") {
				t.Errorf("%q is named, but not there", key)
			}
		}
	}
	if _, _, err := s.Keys(s.ctx, "nonsense", 1); err != nil && !errors.Is(err, storage.ErrCursor) {
		t.Errorf("continuing at nonsense: %v", err)
	}
}
