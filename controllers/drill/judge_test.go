package drill

import (
	"testing"

	"github.com/causalstore/causalstore/lab/history"
)

func TestARunIsNotAbortedForAWriteThatIsYetToBeReported(t *testing.T) {
	read := history.Op{Session: "south/s1", Key: "k", Value: "v", DC: "south", Kind: history.Get, OK: true, Start: 30, End: 40}
	write := history.Op{Session: "north/s1", Key: "k", Value: "v", DC: "north", Kind: history.Put, OK: true, Start: 10, End: 60}
	j := newJudge()
	j.history = history.History{read}
	if j.check().OK() {
		t.Fatal("the checker accepts a value that nobody has written")
	}
	if v, broken := j.brokenSoFar(); broken {
		t.Errorf("aborted while the write is under way: %s", v)
	}
	j.history = append(j.history, write)
	if v, broken := j.brokenSoFar(); broken {
		t.Errorf("aborted after the write is reported: %s", v)
	}
	j.history = append(j.history, history.Op{Session: "north/s1", Key: "k", DC: "north", Kind: history.Get, OK: true, Missing: true, Start: 70, End: 80})
	if _, broken := j.brokenSoFar(); !broken {
		t.Error("a session that does not read its own write does not end the run")
	}
}
