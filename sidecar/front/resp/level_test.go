package resp

import (
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestTheLevelOfAConnectionIsWhatItHasChosenUntilReset(t *testing.T) {
	store := newMemory()
	_, address := serve(t, Options{Backend: store})
	p, other := dial(t, address), dial(t, address)
	p.expect("$6\r\nlatest\r\n", "CAUSAL", "LEVEL")
	p.expect("+OK\r\n", "CAUSAL", "LEVEL", "SnapShot")
	p.expect("$8\r\nsnapshot\r\n", "causal", "level")
	other.expect("$6\r\nlatest\r\n", "CAUSAL", "LEVEL")
	p.expect("+RESET\r\n", "RESET")
	p.expect("$6\r\nlatest\r\n", "CAUSAL", "LEVEL")

	fresh := dial(t, address) // RESET before there is a session
	fresh.expect("+RESET\r\n", "RESET")
	fresh.expect("$6\r\nlatest\r\n", "CAUSAL", "LEVEL")
}

func TestALevelThatCannotBeChosenChangesNothing(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	p.expect("+OK\r\n", "CAUSAL", "LEVEL", "snapshot")
	for want, args := range map[string][]string{
		"-ERR unknown level; use Latest or Snapshot or Local\r\n": {"CAUSAL", "LEVEL", "newest"},
		"-ERR syntax error\r\n":                                   {"CAUSAL", "LEVEL", "latest", "now"},
		"-ERR no home\r\n":                                        {"CAUSAL", "LEVEL", "local"},
	} {
		p.expect(want, args...)
		p.expect("$8\r\nsnapshot\r\n", "CAUSAL", "LEVEL")
	}
	p.expect("-ERR unknown level; use Latest or Snapshot or Local\r\n", "CAUSAL", "LEVEL", "")
}

// A level is no part of a transaction: reads of EXEC are the newest versions.
func TestALevelCannotBeChosenInsideMulti(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	for _, args := range [][]string{{"CAUSAL", "LEVEL"}, {"CAUSAL", "LEVEL", "snapshot"}} {
		p.expect("+OK\r\n", "MULTI")
		p.expect("-ERR 'causal|level' is not allowed inside MULTI: send it before MULTI or after EXEC\r\n", args...)
		p.expect("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
		p.expect("$6\r\nlatest\r\n", "CAUSAL", "LEVEL")
	}
}

func TestTheHelpNamesEveryLevel(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	got := dial(t, address).do("CAUSAL", "HELP")
	for _, level := range append(causal.SessionLevels(), causal.Local) {
		if _, of, _ := strings.Cut(got, "LEVEL [<level>]"); !strings.Contains(of, strings.ToLower(level.String())) {
			t.Errorf("level %s is not in %q", level, got)
		}
	}
}
