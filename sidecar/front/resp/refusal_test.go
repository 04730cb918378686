package resp

import (
	"slices"
	"strings"
	"testing"
)

// Redis sends the same for what is in no table: those errors are compared in TestScriptedCommandsGetTheRepliesOfRedis.
func TestEveryCommandOfRedisIsServedOrRefusedWithAdvice(t *testing.T) {
	theirs := dial(t, redis(t))
	_, address := serve(t, Options{Backend: newMemory()})
	ours := dial(t, address)
	listed := bulks(theirs.do("COMMAND", "LIST"))
	if len(listed) < 300 {
		t.Fatalf("redis lists %d commands", len(listed))
	}
	containers := map[string]bool{}
	for _, name := range listed {
		if container, _, ok := strings.Cut(name, "|"); ok {
			containers[container] = true
		}
	}
	for _, name := range listed {
		container, _, _ := strings.Cut(name, "|")
		switch {
		case byName[name] != nil && refusalErrors[name] != nil:
			t.Errorf("%s is served, and refused", name)
		case byName[name] != nil, refusalErrors[container] != nil && name != container,
			containers[name] && byName[name] != nil:
			continue
		case refusalErrors[name] == nil:
			t.Errorf("%s is neither served nor refused", name)
			continue
		}
		got := ours.do(strings.Split(name, "|")...)
		if want := "-" + refusalErrors[name].Error() + "\r\n"; got != want || strings.Contains(got, "unknown") {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name := range refusalErrors {
		if !slices.Contains(listed, name) {
			t.Errorf("%s is refused, and Redis does not have it", name)
		}
	}
}

func TestClientsGetTheErrorsOfRedisThatTheyBranchOn(t *testing.T) {
	w := newTwins(t, redis(t), "2")
	for _, args := range lines(`
EVALSHA ffffffffffffffffffffffffffffffffffffffff 0
EVALSHA_RO ffffffffffffffffffffffffffffffffffffffff 1 k
FCALL f 0
FCALL_RO f 1 k
CLUSTER INFO
CLUSTER NODES
CLUSTER SLOTS
CLUSTER SHARDS
CLUSTER HELP
READONLY
READWRITE
ASKING
ROLE
MODULE LIST
COMMAND GETKEYS MSET a 1 b 2
COMMAND GETKEYS GET a
COMMAND GETKEYS PING
COMMAND GETKEYS GET
COMMAND GETKEYS nosuch a
COMMAND GETKEYS
COMMAND GETKEYS CLIENT ID
COMMAND GETKEYS GET a b
COMMAND GETKEYS RENAME a b
HSETT h f v
CLIENT KIL x
`) {
		w.compare(args)
	}
}

func TestARefusedCommandNeedsAPasswordFirst(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory(), Users: withPassword("app", "secret")})
	p := dial(t, address)
	p.expect("-NOAUTH Authentication required.\r\n", "HSET", "h", "f", "v")
	p.expect("-NOAUTH Authentication required.\r\n", "EVALSHA", "ff", "0")
	p.expect("+OK\r\n", "AUTH", "app", "secret")
	p.expect("-NOSCRIPT No matching script. Please use EVAL.\r\n", "EVALSHA", "ff", "0")
}
