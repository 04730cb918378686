package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
)

// tally counts reads of keys with a known value.
type tally struct {
	mu                    sync.Mutex
	right, refused, wrong int
	slowest               time.Duration
	refusal               string
}

// read reads a key and counts the answer. Only replies that are neither a value nor a refusal are errors.
func (a *tally) read(ctx context.Context, t *tour, dc, key, want string) error {
	start := time.Now()
	value, err := t.clients[dc].Get(ctx, key).Result()
	took := time.Since(start)
	var reply redis.Error
	refused := errors.As(err, &reply) && !errors.Is(err, redis.Nil)
	if err != nil && !refused && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("GET %s: %w", key, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case refused:
		a.refused++
		a.refusal, _, _ = strings.Cut(reply.Error(), " ")
	case value == want:
		a.right++
		a.slowest = max(a.slowest, took)
	default:
		a.wrong++
	}
	return nil
}

func (a *tally) String() string {
	return fmt.Sprintf("%d right, %d refused, %d wrong", a.right, a.refused, a.wrong)
}

// cut shows a data center without the others, and the others without it.
func (t *tour) cut(ctx context.Context) (err error) {
	const victim, writer, stock = "eu-west-1", "us-east-1", 12
	keys := make([]string, stock)
	held := 0 // of the keys, by the victim
	ring := t.topo.RingOf(t.dc(victim))
	for i := range keys {
		if keys[i], err = t.key("stock"); err != nil {
			return err
		}
		if t.home(ring, keys[i]) == victim {
			held++
		}
		if _, err := t.set(ctx, writer, keys[i], "9"); err != nil {
			return err
		}
	}
	note, err := t.key("note")
	if err != nil {
		return err
	}
	if err := t.settled(ctx, writer); err != nil {
		return err
	}
	if err := t.d.Inject(ctx, local.Fault{Kind: "cut", From: victim, To: "*"}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.heal(ctx)) }()
	t.say(ctx, "%s is cut off from all others. %s are in no cache; %s holds its ring's only copy of %d of them.",
		victim, count(stock, "key"), victim, held)

	var others, alone tally
	if err := t.each(victim, func(dc string) error {
		var all error
		for _, key := range keys {
			all = errors.Join(all, others.read(ctx, t, dc, key, "9"))
		}
		return all
	}); err != nil {
		return err
	}
	reads := stock * (len(t.topo.DCs) - 1)
	t.verify(ctx, others.right == reads,
		fmt.Sprintf("The others keep reading: %d of %d reads correct, the slowest in %s.", others.right, reads,
			took(others.slowest)),
		fmt.Sprintf("Of %d reads by the others: %s.", reads, &others))

	acked, err := t.set(ctx, victim, note, "still here")
	if err != nil {
		return err
	}
	elsewhere, err := t.get(ctx, writer, note)
	if err != nil {
		return err
	}
	t.verify(ctx, elsewhere.missing,
		fmt.Sprintf("%s accepts a write in %s; %s reads %s of it.", victim, took(acked), writer, elsewhere),
		fmt.Sprintf("%s read %s, which cannot have left %s.", writer, elsewhere, victim))

	began := time.Now()
	var all sync.WaitGroup
	errs := make([]error, len(keys))
	for i, key := range keys {
		all.Go(func() { errs[i] = alone.read(ctx, t, victim, key, "9") })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	told := "no read is refused"
	if alone.refused > 0 {
		told = fmt.Sprintf("is told %s for the other %d, within %s", alone.refusal, alone.refused,
			took(time.Since(began)))
	}
	t.verify(ctx, alone.wrong == 0 && alone.right >= held,
		fmt.Sprintf("%s reads %d of the keys and %s; it never gets a wrong value.", victim, alone.right, told),
		fmt.Sprintf("%s alone, which holds %d of the keys: %s.", victim, held, &alone))

	healed := time.Now()
	if err := t.heal(ctx); err != nil {
		return err
	}
	if err := t.waitFor(ctx, victim, "all"); err != nil {
		return err
	}
	t.say(ctx, "Healed. %s later, the write of %s is in all rings.", took(time.Since(healed)), victim)
	return t.readEverywhere(ctx, note, "still here")
}
