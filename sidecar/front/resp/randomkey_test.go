package resp

import (
	"fmt"
	"testing"
)

func TestRandomKeyReturnsEachKeyThatExists(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	p.expect("$-1\r\n", "RANDOMKEY")
	for i := range 300 {
		p.expect("+OK\r\n", "SET", fmt.Sprint("gone", i), "x")
		p.expect(":1\r\n", "DEL", fmt.Sprint("gone", i))
	}
	p.expect("$-1\r\n", "RANDOMKEY")
	p.expect("+OK\r\n", "MSET", "a", "1", "b", "2", "c", "3")
	p.expect("+OK\r\n", "SELECT", "1")
	p.expect("$-1\r\n", "RANDOMKEY")
	p.expect("+OK\r\n", "SELECT", "0")
	found := map[string]bool{}
	for range 200 {
		found[p.do("RANDOMKEY")] = true
	}
	if len(found) != 3 || !found["$1\r\na\r\n"] {
		t.Errorf("%v", found)
	}
}
