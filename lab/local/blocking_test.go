package local_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
)

// waitRig is a deployment with two sidecars in each data center, and what clients that wait have got.
type waitRig struct {
	t     *testing.T
	ports []string // of the first data center
	far   string   // of another one
}

func newWaitRig(t *testing.T) *waitRig {
	d := start(t, local.Options{Scope: node.ScopeDataCenter, Level: causal.Snapshot, Cache: true, Sidecars: 2})
	return &waitRig{t: t, ports: d.Endpoints()[0].Sidecars, far: d.Endpoints()[3].RESP}
}

func (r *waitRig) client(sidecar int) *redis.Conn { return oneSession(r.t, r.ports[sidecar]) }

func (r *waitRig) do(c *redis.Conn, line string) any {
	r.t.Helper()
	got, err := doLine(r.t, c, line)
	if err != nil {
		r.t.Fatalf("%s: %v", line, err)
	}
	return got
}

func doLine(t *testing.T, c *redis.Conn, line string) (any, error) {
	var args []any
	for _, arg := range strings.Fields(line) {
		args = append(args, arg)
	}
	got, err := c.Do(t.Context(), args...).Result()
	if errors.Is(err, redis.Nil) {
		return "nil", nil
	}
	return got, err
}

// begin executes a command at a sidecar and returns once its client waits there.
func (r *waitRig) begin(sidecar int, line string) (c *redis.Conn, reply chan string) {
	r.t.Helper()
	c, reply = r.client(sidecar), make(chan string, 1)
	if err := c.ClientSetName(r.t.Context(), strings.ReplaceAll(line, " ", "-")).Err(); err != nil {
		r.t.Fatal(err)
	}
	before := r.waiting(sidecar)
	go func() {
		got, err := doLine(r.t, c, line)
		if err != nil {
			got = err
		}
		reply <- fmt.Sprint(got)
	}()
	for until := time.Now().Add(10 * time.Second); r.waiting(sidecar) == before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			r.t.Fatalf("%s does not wait", line)
		}
	}
	time.Sleep(20 * time.Millisecond) // it is told to the home
	return c, reply
}

// waiting returns how many clients wait at a sidecar.
func (r *waitRig) waiting(sidecar int) string {
	info := r.client(sidecar).Info(r.t.Context(), "clients").Val()
	_, info, _ = strings.Cut(info, "blocked_clients:")
	n, _, _ := strings.Cut(info, "\r\n")
	return n
}

func (r *waitRig) gets(reply chan string, want string) {
	r.t.Helper()
	select {
	case got := <-reply:
		if got != want {
			r.t.Errorf("it is %s, want %s", got, want)
		}
	case <-time.After(10 * time.Second):
		r.t.Errorf("it still waits, and not for %s", want)
	}
}

func (r *waitRig) waits(reply chan string) {
	r.t.Helper()
	select {
	case got := <-reply:
		r.t.Errorf("it does not wait, but has %s", got)
	case <-time.After(300 * time.Millisecond):
	}
}

func TestClientsWaitForElements(t *testing.T) {
	r := newWaitRig(t)
	pusher := r.client(1)
	t.Run("all commands", func(t *testing.T) {
		for i, c := range []struct{ wait, push, want, left string }{
			{"BLPOP K 0", "RPUSH K a b", "[K a]", "LRANGE K 0 -1 [b]"},
			{"BRPOP K 0", "RPUSH K a b", "[K b]", "LRANGE K 0 -1 [a]"},
			{"BLPOP J K 0", "RPUSH K a", "[K a]", "EXISTS K 0"},
			{"BLMPOP 0 2 J K LEFT COUNT 2", "RPUSH K a b c", "[K [a b]]", "LRANGE K 0 -1 [c]"},
			{"BLMOVE K L LEFT RIGHT 0", "RPUSH K a b", "a", "LRANGE L 0 -1 [a]"},
			{"BRPOPLPUSH K L 0", "RPUSH K a b", "b", "LRANGE L 0 -1 [b]"},
			{"BZPOPMIN J K 0", "ZADD K 1.5 a 2 b", "[K a 1.5]", "ZRANGE K 0 -1 [b]"},
			{"BZPOPMAX K 0", "ZADD K 1 a 2 b", "[K b 2]", "ZRANGE K 0 -1 [a]"},
			{"BZMPOP 0 1 K MAX", "ZADD K 1 a 2 b", "[K [[b 2]]]", "ZRANGE K 0 -1 [a]"},
		} {
			own := strings.NewReplacer("K", fmt.Sprint("k", i), "J", fmt.Sprint("j", i), "L", fmt.Sprint("l", i))
			// names of commands have these letters too
			name, args, _ := strings.Cut(c.wait, " ")
			args = strings.ReplaceAll(own.Replace(args), "l"+fmt.Sprint(i)+"EFT", "LEFT")
			_, reply := r.begin(0, name+" "+args)
			name, args, _ = strings.Cut(c.push, " ")
			r.do(pusher, name+" "+own.Replace(args))
			r.gets(reply, own.Replace(c.want))
			name, args, _ = strings.Cut(c.left, " ")
			words := strings.Fields(own.Replace(args))
			want := words[len(words)-1]
			if got := fmt.Sprint(r.do(pusher, name+" "+strings.Join(words[:len(words)-1], " "))); got != want {
				t.Errorf("after %s, %s is %s", c.wait, c.left, got)
			}
		}
	})
	t.Run("first come, first served", func(t *testing.T) {
		var replies []chan string
		for i := range 6 {
			_, reply := r.begin(i%2, "BLPOP turns 0")
			replies = append(replies, reply)
		}
		for i := range 3 {
			r.do(pusher, fmt.Sprintf("RPUSH turns %d", i))
			r.gets(replies[i], fmt.Sprintf("[turns %d]", i))
		}
		r.do(pusher, "RPUSH turns 3 4 5") // at once
		for i := 3; i < 6; i++ {
			r.gets(replies[i], fmt.Sprintf("[turns %d]", i))
		}
	})
	t.Run("time-out", func(t *testing.T) {
		began := time.Now()
		_, reply := r.begin(0, "BLPOP never 0.2")
		r.gets(reply, "nil")
		if took := time.Since(began); took < 200*time.Millisecond || took > 2*time.Second {
			t.Errorf("it has taken %s", took)
		}
	})
	t.Run("at once, in the order of the keys", func(t *testing.T) {
		r.do(pusher, "RPUSH second x")
		r.do(pusher, "RPUSH third y")
		if got := fmt.Sprint(r.do(r.client(0), "BLPOP first second third 1")); got != "[second x]" {
			t.Error(got)
		}
	})
	t.Run("who is gone takes nothing", func(t *testing.T) {
		c, err := net.Dial("tcp", r.ports[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("BLPOP gone 0\r\nRPUSH gone never\r\n")); err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(10 * time.Second); r.waiting(0) == "0" && time.Now().Before(until); {
			time.Sleep(5 * time.Millisecond)
		}
		_, next := r.begin(1, "BLPOP gone 0")
		c.Close()
		for until := time.Now().Add(10 * time.Second); r.waiting(0) != "0" && time.Now().Before(until); {
			time.Sleep(5 * time.Millisecond)
		}
		r.do(pusher, "RPUSH gone x")
		r.gets(next, "[gone x]")
	})
	t.Run("a transaction does not wait", func(t *testing.T) {
		pipe := r.client(0).TxPipeline()
		pop, move := pipe.BLPop(t.Context(), 0, "nothing"), pipe.BLMove(t.Context(), "nothing", "n", "LEFT", "LEFT", 0)
		_, _ = pipe.Exec(t.Context())
		if !errors.Is(pop.Err(), redis.Nil) || !errors.Is(move.Err(), redis.Nil) {
			t.Errorf("%v, %v", pop.Err(), move.Err())
		}
	})
	t.Run("other types", func(t *testing.T) {
		r.do(pusher, "SET text x")
		if _, err := doLine(t, r.client(0), "BLPOP text 1"); err == nil || !strings.HasPrefix(err.Error(), "WRONGTYPE") {
			t.Errorf("at the call it is %v", err)
		}
		_, reply := r.begin(0, "BLPOP becomes 0")
		r.do(pusher, "SET becomes text")
		r.waits(reply)
		r.do(pusher, "DEL becomes")
		r.do(pusher, "RPUSH becomes x")
		r.gets(reply, "[becomes x]")
	})
	t.Run("pushes in a transaction and a rename", func(t *testing.T) {
		_, reply := r.begin(0, "BLPOP renamed 0")
		r.do(pusher, "RPUSH other x")
		r.do(pusher, "RENAME other renamed")
		r.gets(reply, "[renamed x]")
	})
	t.Run("another data center", func(t *testing.T) {
		_, reply := r.begin(0, "BLPOP foreign 0")
		_, next := r.begin(1, "BLPOP foreign 0")
		r.do(oneSession(t, r.far), "RPUSH foreign x y")
		r.gets(reply, "[foreign x]")
		r.gets(next, "[foreign y]")
	})
	t.Run("CLIENT UNBLOCK", func(t *testing.T) {
		for _, c := range [][2]string{{"TIMEOUT", "nil"}, {"ERROR", "UNBLOCKED client unblocked via CLIENT UNBLOCK"}} {
			waiter, reply := r.begin(0, "BLPOP unblocked 0")
			list := r.client(0).ClientList(t.Context()).Val()
			i := slices.IndexFunc(strings.Split(list, "\n"), func(line string) bool {
				return strings.Contains(line, "flags=b") && strings.Contains(line, "cmd=blpop")
			})
			if i < 0 {
				t.Fatalf("CLIENT LIST is %s", list)
			}
			id := strings.TrimPrefix(strings.Fields(strings.Split(list, "\n")[i])[0], "id=")
			if got := r.do(r.client(0), "CLIENT UNBLOCK "+id+" "+c[0]); got != int64(1) {
				t.Errorf("it returns %v", got)
			}
			r.gets(reply, c[1])
			if got := r.do(waiter, "PING"); got != "PONG" {
				t.Errorf("PING is %v", got)
			}
		}
	})
	for i := range r.ports {
		if n := r.waiting(i); n != "0" {
			t.Errorf("at the end %s clients wait at sidecar %d", n, i)
		}
	}
}

// Clients at two sidecars wait for jobs. Each job is taken once.
func TestJobsAreHandedOutOnce(t *testing.T) {
	const producers, each, consumers = 2, 100, 6
	r := newWaitRig(t)
	var mu sync.Mutex
	times := map[string]int{}
	var all sync.WaitGroup
	for n := range consumers {
		c := r.client(n % 2)
		all.Go(func() {
			for {
				got, err := c.BLPop(t.Context(), 3*time.Second, "jobs").Result()
				if errors.Is(err, redis.Nil) {
					return
				}
				if err != nil {
					t.Errorf("BLPOP: %v", err)
					return
				}
				mu.Lock()
				times[got[1]]++
				mu.Unlock()
			}
		})
	}
	for n := range producers {
		c := r.client(n % 2)
		all.Go(func() {
			for i := range each {
				r.do(c, fmt.Sprintf("RPUSH jobs %d:%d", n, i))
			}
		})
	}
	all.Wait()
	for job, n := range times {
		if n != 1 {
			t.Errorf("%s is handed out %d times", job, n)
		}
	}
	if len(times) != producers*each {
		t.Errorf("%d of %d jobs are handed out", len(times), producers*each)
	}
}
