package resp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/front"
)

// exactMemory is the store of exact sessions, which commit keys in order if they begin with the same letter.
func exactMemory() *memory {
	m := newMemory()
	m.exact = true
	m.inOrder = func(keys []string) int {
		n := 1
		for n < len(keys) && keys[n][0] == keys[0][0] {
			n++
		}
		return n
	}
	return m
}

// executed sends a pipeline, and returns the replies and what was committed: "KEYS if READ", and single puts.
func executed(t *testing.T, m *memory, commands ...[]string) (replies string, commits []string) {
	t.Helper()
	puts := map[string]int{}
	m.before = func(operation, key string) {
		if operation == "put" {
			puts[key]++
		}
	}
	_, address := serve(t, Options{Backend: m})
	p := dial(t, address)
	p.send(batch(commands...))
	for range commands {
		replies += strings.ReplaceAll(p.reply(), "\r\n", " ")
	}
	for _, c := range m.commits {
		text := ""
		for _, w := range c.puts {
			text += w.Key + " "
		}
		commits = append(commits, text+"if "+strings.Join(c.read, " "))
	}
	for key, n := range puts {
		commits = append(commits, fmt.Sprintf("put %s %d", key, n))
	}
	slices.Sort(commits)
	return replies, commits
}

func TestUpdatesThatReturnWhatWasThereAreCommittedTogether(t *testing.T) {
	getSet := func(key, value string) []string { return []string{"GETSET", key, value} }
	for what, c := range map[string]struct {
		commands [][]string
		replies  string
		commits  []string
	}{
		"keys of one home": {[][]string{getSet("a1", "1"), getSet("a1", "2"), {"SET", "a2", "3", "GET"}, {"GETDEL", "a3"}},
			"$3 old $1 1 $-1 $3 old ", []string{"a1 a2 a3 if a1 a2 a3"}},
		"what is only read is a condition": {[][]string{getSet("a1", "1"), {"GETDEL", "a2"}, {"SET", "a3", "x", "NX", "GET"}},
			"$3 old $-1 $3 old ", []string{"a1 if a1 a2 a3"}},
		"nothing is written": {[][]string{{"GETDEL", "a2"}, {"GETDEL", "a4"}}, "$-1 $-1 ", nil},
		"a key that is written again is for the next commit": {
			[][]string{getSet("a1", "1"), getSet("a2", "2"), getSet("a1", "3"), getSet("a2", "4")},
			"$3 old $-1 $1 1 $1 2 ", []string{"a1 a2 if a1 a2", "a1 a2 if a1 a2"}},
		"keys of several homes are committed in the order of the pipeline": {
			[][]string{getSet("a1", "1"), getSet("a2", "2"), getSet("b1", "3"), getSet("b2", "4"), getSet("a3", "5")},
			"$3 old $-1 $-1 $-1 $3 old ", []string{"a1 a2 if a1 a2", "b1 b2 if b1 b2", "put a3 1"}},
		"one that fails writes nothing": {[][]string{getSet("a1", "x"), {"INCR", "a1"}, {"INCR", "a2"}},
			"$3 old -ERR value is not an integer or out of range :1 ", []string{"a1 a2 if a1 a2"}},
	} {
		t.Run(what, func(t *testing.T) {
			m := exactMemory()
			m.put("a1", causal.Value{Data: []byte("old")})
			m.put("a3", causal.Value{Data: []byte("old")})
			if replies, commits := executed(t, m, c.commands...); replies != c.replies ||
				!slices.Equal(commits, c.commits) {
				t.Errorf("replies %q, commits %q", replies, commits)
			}
		})
	}
}

func TestUpdatesAreExecutedOneByOneWhileOthersWriteTheirKeys(t *testing.T) {
	m := exactMemory()
	refused := 0
	m.putError = func(key string) error {
		if key == "a3" && refused == 0 {
			refused++
			return front.Errorf(front.Conflict, "others have written it")
		}
		return nil
	}
	replies, commits := executed(t, m, []string{"GETSET", "a1", "1"}, []string{"GETSET", "a2", "2"},
		[]string{"GETSET", "a3", "3"})
	if want := []string{"a1 a2 a3 if a1 a2 a3", "put a1 1", "put a2 1", "put a3 1"}; replies != "$-1 $-1 $-1 " ||
		!slices.Equal(commits, want) {
		t.Errorf("replies %q, commits %q", replies, commits)
	}
}

func TestACommitOfUnknownOutcomeIsThatOfEachUpdateThatHasWritten(t *testing.T) {
	m := exactMemory()
	m.putError = func(string) error { return front.Errorf(front.UnknownOutcome, "no answer") }
	replies, commits := executed(t, m, []string{"GETSET", "a1", "1"}, []string{"GETDEL", "a2"},
		[]string{"GETSET", "a3", "3"})
	if replies != "-UNKNOWN no answer $-1 -UNKNOWN no answer " || len(commits) != 1 {
		t.Errorf("replies %q, commits %q", replies, commits)
	}
}
