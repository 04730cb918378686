package resp

import (
	"slices"
	"strings"
	"testing"
)

func TestABitBeyondTheLimitOfValuesIsRefused(t *testing.T) {
	options := Options{Backend: newMemory()}
	options.Limits.MaxValueBytes = 1000
	_, address := serve(t, options)
	p := dial(t, address)
	p.expect(":0\r\n", "SETBIT", "k", "7999", "1")
	refusal := "-ERR the resulting value would end at byte 1001, after the limit of 1000 bytes\r\n"
	p.expect(refusal, "SETBIT", "k", "8000", "1")
	p.expect(refusal, "BITFIELD", "k", "GET", "u1", "0", "SET", "u8", "7995", "1")
	p.expect(":1000\r\n", "STRLEN", "k")
	p.expect(":0\r\n", "GETBIT", "k", "4000000000")
}

func TestLongStringsAreRefusedByLCS(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	p.do("SET", "a", strings.Repeat("a", 3000))
	p.do("SET", "b", strings.Repeat("b", 3000))
	p.expect("-ERR strings of 3000 and 3000 bytes are too long for LCS: the product has a limit of 4194304; "+
		"read the values, and compute in the client\r\n", "LCS", "a", "b", "LEN")
}

// An EXEC is on condition that nobody has written the keys that its commands name by an option, or in another one of
// the databases.
func TestAnExecDependsOnKeysThatOptionsName(t *testing.T) {
	for _, test := range []struct {
		command string
		holds   string
	}{
		{"MOVE from 2", "\x012:from"},
		{"GEORADIUS from 1 1 10 km STORE to", "to"},
		{"GEORADIUSBYMEMBER from m 10 km STOREDIST to", "to"},
		{"GEOSEARCHSTORE to from FROMMEMBER m BYRADIUS 1 m", "to"},
		{"BITOP NOT to string", "to"},
		{"ZMPOP 2 none from MIN", "none"},
	} {
		store := newMemory()
		store.exact = true
		_, address := serve(t, Options{Backend: store})
		p := dial(t, address)
		p.do("GEOADD", "from", "1", "1", "m")
		p.do("SET", "string", "x")
		p.do("SET", "to", "before")
		p.do("SELECT", "2")
		p.do("SET", "from", "there")
		p.do("SELECT", "0")
		p.do("MULTI")
		p.expect("+QUEUED\r\n", strings.Fields(test.command)...)
		p.expect("+QUEUED\r\n", "SET", "also", "1")
		reply := p.do("EXEC")
		last := store.commits[len(store.commits)-1]
		if strings.Contains(reply, "-") || !slices.Contains(last.read, test.holds) {
			t.Errorf("%s: %q, on condition of %q, want %q", test.command, reply, last.read, test.holds)
		}
		if is := p.do("GET", "none"); is != "$-1\r\n" {
			t.Errorf("%q", is)
		}
	}
	// what is there in the other database stays
	store := newMemory()
	store.exact = true
	_, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	for _, args := range lines("SET k here\nSELECT 2\nSET k there\nSELECT 0\nMULTI\nMOVE k 2") {
		p.do(args...)
	}
	p.expect("*1\r\n:0\r\n", "EXEC")
}
