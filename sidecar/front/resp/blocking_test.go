package resp

import (
	"strings"
	"testing"
	"time"
)

// blockingScript has nothing that waits for long: Redis has no other client to push.
const blockingScript = `
BLPOP k abc
BLPOP k -1
BLPOP k nan
BLPOP k 1e400
BLPOP k inf
BLPOP k 9999999999999999
BLPOP k ""
BLPOP k " 1"
BLPOP k 1_0
BLPOP k 0x1p-4
BLPOP k
BLPOP k 0.001
BRPOP k j 0.0001
BLMOVE a b x left abc
BLMOVE a b left left abc
BLMOVE a b left left 0.01
BRPOPLPUSH a b 0.01
BRPOPLPUSH a b -0.01
BLMPOP abc 0 k left
BLMPOP abc 1 k left
BLMPOP -1 1 k left
BLMPOP 0.01 1 k mid
BLMPOP 0.01 1 k left count 0
BLMPOP 0.01 3 k left
BLMPOP 0.01 1 k left
BZMPOP 0.01 1 k min count
BZMPOP x 3 k min
BZMPOP x 1 k min
BZMPOP 0.01 0 k min
BZMPOP 0.01 1 k min
BZPOPMIN k 0.01
BZPOPMAX k x
RPUSH r a b c d e f g
BLPOP k r 0
BRPOP r k 0
BLMPOP 0 2 k r LEFT COUNT 2
BLMOVE r s LEFT RIGHT 0
BRPOPLPUSH r s 0
LRANGE s 0 -1
ZADD z 1.5 a 2 b 3 c 4 d
BZPOPMIN k z 0
BZPOPMAX z 0
BZMPOP 0 2 k z MIN COUNT 5
SET t x
BLPOP t 0.01
BLPOP k t 0.01
BLPOP r t 0.01
BLMOVE t k left left 0.01
BRPOPLPUSH k t 0.01
BLMOVE s t LEFT LEFT 0.01
BZPOPMIN t 0.01
BZPOPMIN s 0.01
BLMPOP 0.01 1 t LEFT
BZMPOP 0.01 1 t MIN
MULTI
BLPOP k 0
BLMOVE k j LEFT LEFT 0
BRPOPLPUSH k j 0
BLMPOP 0 1 k LEFT
BZPOPMIN k 0
BZMPOP 0 1 k MAX
BLPOP s 0
BLPOP t 0
EXEC
CLIENT UNBLOCK 9999999
CLIENT UNBLOCK x
CLIENT UNBLOCK 9999999 ERROR
CLIENT UNBLOCK 9999999 why
`

func TestCommandsThatWaitGetTheRepliesOfRedis(t *testing.T) {
	socket := redis(t)
	for _, proto := range []string{"2", "3"} {
		for _, exact := range []bool{false, true} {
			w := newTwinsOf(t, socket, proto, exact)
			for _, args := range lines(blockingScript) {
				w.compare(args)
			}
		}
	}
}

// What a client has sent behind a command that waits is executed when that is over, and not before.
func TestWhatFollowsACommandThatWaitsIsExecutedAfterIt(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	waiter, pusher := dial(t, address), dial(t, address)
	var batch []byte
	for _, args := range lines("SET before 1\nBLPOP queue 0\nSET after 1\nGET after") {
		batch = append(batch, frameOf(args...)...)
	}
	waiter.send(batch)
	if got := waiter.reply(); got != "+OK\r\n" {
		t.Errorf("before it: %q", got)
	}
	if got := pusher.do("EXISTS", "before", "after"); got != ":1\r\n" {
		t.Errorf("while it waits: %q", got)
	}
	waits := func() bool { return strings.Contains(pusher.do("INFO", "clients"), "blocked_clients:1\r\n") }
	for until := time.Now().Add(10 * time.Second); !waits(); {
		if time.Now().After(until) {
			t.Fatal("nobody waits")
		}
	}
	pusher.do("RPUSH", "queue", "x")
	for _, want := range []string{"*2\r\n$5\r\nqueue\r\n$1\r\nx\r\n", "+OK\r\n", "$1\r\n1\r\n"} {
		if got := waiter.reply(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
