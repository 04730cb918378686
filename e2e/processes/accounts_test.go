package processes_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// accounts are keys of both homes of a data center: each has a slot of its own.
const accounts, balance = 8, 100

func accountNames() (names []string) {
	for i := range accounts {
		names = append(names, fmt.Sprintf("account:%d", i))
	}
	return names
}

// Data center a has two coordinators. Clients of both of its sidecars move money between accounts, with WATCH and EXEC,
// while coordinators and a sidecar are killed and paused. Whoever reads all accounts with an MGET finds the sum that
// was there at first, and so it is at the end.
func TestTransfersBetweenAccountsOfTwoHomesKeepTheSum(t *testing.T) {
	d := planDeployment(t, nil, oneRedis)
	d.addSidecar("a")
	d.addHome("a")
	d.startAll()
	names := accountNames()
	first := d.client("a")
	eventually(t, "the accounts to be there", func() error {
		var pairs []any
		for _, name := range names {
			pairs = append(pairs, name, balance)
		}
		return first.MSet(t.Context(), pairs...).Err()
	})
	ctx, stop := context.WithCancel(t.Context())
	var moved, read atomic.Int64
	var all sync.WaitGroup
	for i, name := range []string{"a-sidecar", "a-sidecar-2", "a-sidecar", "a-sidecar-2"} {
		c := d.clientOf(name)
		all.Go(func() { moveMoney(ctx, c, names, i, &moved) })
		all.Go(func() { readSums(ctx, t, c, names, &read) })
	}
	more := func(n int64) {
		from, reads := moved.Load(), read.Load()
		eventually(t, "money to be moved", func() error {
			if m, r := moved.Load(), read.Load(); m < from+n || r < reads+n {
				return fmt.Errorf("%d transfers, %d sums", m-from, r-reads)
			}
			return nil
		})
	}
	more(20)
	for _, name := range []string{"a-coordinator", "a-coordinator-1", "a-sidecar-2"} {
		d.kill(name)
		d.restart(name)
		more(10)
	}
	for _, name := range []string{"a-coordinator-1", "a-coordinator"} {
		p := d.procs[name].cmd.Process
		must(t, p.Signal(syscall.SIGSTOP))
		time.Sleep(2500 * time.Millisecond)
		must(t, p.Signal(syscall.SIGCONT))
		more(10)
	}
	stop()
	all.Wait()
	eventually(t, "a last sum", func() error { return checkSum(t, t.Context(), first, names) })
	t.Logf("%d transfers, %d sums", moved.Load(), read.Load())
}

// clientOf returns a client of a sidecar.
func (d *deployment) clientOf(sidecar string) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: d.procs[sidecar].redis, MaxRetries: -1, ReadTimeout: patience})
	d.t.Cleanup(func() { c.Close() })
	return c
}

// moveMoney moves one unit after the other between accounts.
func moveMoney(ctx context.Context, c *goredis.Client, names []string, seed int, moved *atomic.Int64) {
	for n := seed; ctx.Err() == nil; n++ {
		from, to := names[n%len(names)], names[(n*3+1+seed)%len(names)]
		if from == to {
			continue
		}
		err := c.Watch(ctx, func(tx *goredis.Tx) error {
			values, err := tx.MGet(ctx, from, to).Result()
			if err != nil {
				return err
			}
			a, b := number(values[0]), number(values[1])
			_, err = tx.TxPipelined(ctx, func(p goredis.Pipeliner) error {
				p.Set(ctx, from, a-1, 0)
				p.Set(ctx, to, b+1, 0)
				return nil
			})
			return err
		}, from, to)
		if err == nil {
			moved.Add(1)
		}
		pause(ctx)
	}
}

func number(v any) int {
	text, _ := v.(string)
	n, _ := strconv.Atoi(text)
	return n
}

// pause keeps clients from taking all processors.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Millisecond):
	}
}

func readSums(ctx context.Context, t *testing.T, c *goredis.Client, names []string, read *atomic.Int64) {
	for ctx.Err() == nil {
		if checkSum(t, ctx, c, names) == nil {
			read.Add(1)
		}
		pause(ctx)
	}
}

// checkSum reads all accounts, and checks their sum if they could be read.
func checkSum(t *testing.T, ctx context.Context, c *goredis.Client, names []string) error {
	values, err := c.MGet(ctx, names...).Result()
	if err != nil {
		return err
	}
	sum, shown := 0, []string{}
	for _, v := range values {
		if v == nil {
			return errors.New("an account is missing")
		}
		sum += number(v)
		shown = append(shown, fmt.Sprint(v))
	}
	if sum != accounts*balance {
		t.Errorf("the accounts have %d: %s", sum, strings.Join(shown, " "))
	}
	return nil
}
