package resp

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A key that a client may write is one that a coordinator accepts, in each database.
func TestTheNameOfTheLongestKeyIsOneThatCanBeStored(t *testing.T) {
	longest := strings.Repeat(string(databaseMark), contract.MaxKeyBytes)
	for n := range databases {
		if err := causal.CheckPut(storageKey(n, longest), causal.Value{Data: make([]byte, contract.MaxValueBytes)},
			causal.MaxPutDeps); err != nil {
			t.Errorf("in database %d: %v", n, err)
		}
	}
}

func TestDatabasesAreSeparateKeySpaces(t *testing.T) {
	store := newMemory()
	_, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	p.send(frameOf("SET", "{t}k", "in 0"))
	for _, n := range []string{"1", "15"} {
		// pipelined plain writes stay in their database
		p.send(append(frameOf("SELECT", n), frameOf("SET", "{t}k", "in "+n)...))
	}
	for range 5 {
		p.reply()
	}
	p.expect("$5\r\nin 15\r\n", "GET", "{t}k")
	p.expect("*2\r\n$5\r\nin 15\r\n$-1\r\n", "MGET", "{t}k", "k")
	p.expect(":2\r\n", "APPEND", "k", "ab")
	p.expect("+OK\r\n", "MSET", "m", "1", "n", "2")
	p.expect(":3\r\n", "DEL", "k", "m", "n")
	p.do("SELECT", "0")
	p.expect("$4\r\nin 0\r\n", "GET", "{t}k")
	p.expect(":0\r\n", "EXISTS", "k")

	// A key of database 0 that begins like the names of the others is a key of its own.
	p.expect("$-1\r\n", "GET", "\x011:{t}k")
	p.expect("+OK\r\n", "SET", "\x011:{t}k", "mine")
	p.expect("+OK\r\n", "SET", "\x01", "mark")
	p.expect("*2\r\n$4\r\nmine\r\n$4\r\nmark\r\n", "MGET", "\x011:{t}k", "\x01")
	p.do("SELECT", "1")
	p.expect("$4\r\nin 1\r\n", "GET", "{t}k")

	var live []string
	for _, key := range slices.Sorted(maps.Keys(store.values)) {
		if !store.values[key].Tombstone {
			live = append(live, key)
		}
	}
	want := []string{"\x010:\x01", "\x010:\x011:{t}k", "\x0115:{t}k", "\x011:{t}k", "{t}k"}
	if !slices.Equal(live, want) {
		t.Errorf("stored under\n %q\nwant\n %q", live, want)
	}
	for _, name := range want[1:] {
		if topology.SlotOf(name) != topology.SlotOf("t") {
			t.Errorf("%q is not in the slot of its tag", name)
		}
	}
}

func TestNoTwoKeysOfAnyDatabasesAreStoredUnderOneName(t *testing.T) {
	keys := []string{"", "\x01", "\x01\x01", ":", "1", "1:", "\x011", "\x011:", "\x010:", "\x010:\x01", "\x011:\x011:",
		"\x0115:", "5:", "15:", "a"}
	names := map[string]string{}
	for database := range databases {
		for _, key := range keys {
			name := storageKey(database, key)
			if other, taken := names[name]; taken {
				t.Errorf("key %q of database %d and %s are both stored under %q", key, database, other, name)
			}
			names[name] = key
		}
	}
	given := []string{"a", "b", "\x01c", "d"}
	if got := storageKeys(0, given); got[2] != "\x010:\x01c" || got[3] != "d" || given[2] != "\x01c" {
		t.Errorf("got %q, given %q", got, given)
	}
	if got := storageKeys(2, given); !slices.Equal(got, []string{"\x012:a", "\x012:b", "\x012:\x01c", "\x012:d"}) {
		t.Errorf("got %q", got)
	}
}

func TestStoredNamesAreReadBackAsTheyWereMade(t *testing.T) {
	for database := range databases {
		for _, key := range []string{"", "a", "\x01", "\x011:a", "1:a"} {
			if n, k, ok := keyStoredAs(storageKey(database, key)); n != database || k != key || !ok {
				t.Errorf("key %q of database %d is read back as %q of %d, %v", key, database, k, n, ok)
			}
		}
	}
	for _, name := range []string{"\x01", "\x01a", "\x010:a", "\x0116:a", "\x0101:a", "\x011"} {
		if n, key, ok := keyStoredAs(name); ok {
			t.Errorf("%q, which nothing stores, is read as %q of database %d", name, key, n)
		}
	}
}
