package resp

import (
	"slices"
	"testing"
	"time"
)

// A copy in an exact session is one step, on condition that nobody has written the two keys since they were read.
func TestACopyInAnExactSessionIsOneStep(t *testing.T) {
	store := newMemory()
	store.exact = true
	_, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	p.expect("+OK\r\n", "SET", "from", "v", "PX", "1000000")
	p.expect(":1\r\n", "COPY", "from", "to", "DB", "2")
	want := []string{"\x012:to", "from"}
	if len(store.commits) != 1 || !slices.Equal(store.commits[0].read, want) ||
		len(store.commits[0].puts) != 1 || store.commits[0].puts[0].Key != want[0] {
		t.Errorf("written in steps %+v, want one, on condition of %q", store.commits, want)
	}
	if at := store.get(want[0]).ExpireAtMs; at != store.get("from").ExpireAtMs || at == 0 {
		t.Errorf("the copy expires at %d ms", at)
	}
}

// EXEC holds the destination of a copy into another database too.
func TestAnExecHoldsTheDestinationOfACopyIntoAnotherDatabase(t *testing.T) {
	store := newMemory()
	_, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	p.do("SET", "from", "v")
	p.do("MULTI")
	p.expect("+QUEUED\r\n", "COPY", "from", "to", "DB", "2")
	put := make(chan struct{})
	goOn := make(chan struct{})
	store.before = func(operation, key string) {
		if operation == "issue" && key == "\x012:to" {
			close(put)
			<-goOn
		}
	}
	p.send(frameOf("EXEC"))
	waitForClose(t, "the copy to be written", put)
	locked := make(chan struct{})
	go func() {
		(&memorySession{store: store}).Lock("\x012:to")()
		close(locked)
	}()
	select {
	case <-locked:
		t.Error("another command has the destination meanwhile")
	case <-time.After(50 * time.Millisecond):
	}
	close(goOn)
	if got := p.reply(); got != "*1\r\n:1\r\n" {
		t.Errorf("%q", got)
	}
	waitForClose(t, "the destination to be free", locked)
}
