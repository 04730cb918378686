package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/causalstore/causalstore/lab/local"
)

// crash shows reads that switch to another ring while a shard is down.
func (t *tour) crash(ctx context.Context) (err error) {
	const victim, reader, fresh = "us-west-2", "us-east-1", 60
	keys := make([]string, fresh) // each is read once: a second read would come from the cache
	for i := range keys {
		if keys[i], err = t.key("order", victim); err != nil {
			return err
		}
		if _, err := t.set(ctx, reader, keys[i], "paid"); err != nil {
			return err
		}
	}
	if err := t.settled(ctx, reader); err != nil {
		return err
	}
	// On a busy machine another ring may answer at first, since the nearest one was slow a moment ago.
	var before traced
	err = until(ctx, victim+" answers", func() (bool, error) {
		before, err = t.traced(ctx, reader, keys[0])
		keys = keys[1:]
		return before.by == victim || len(keys) < fresh/2, err
	})
	if err != nil {
		return err
	}
	if err := t.d.Inject(ctx, local.Fault{Kind: "crash", DC: victim, Part: "middleman"}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.heal(ctx)) }()
	during, err := t.traced(ctx, reader, keys[0])
	if err != nil {
		return err
	}
	t.say(ctx,
		"%s reads keys that its ring stores in %s, each for the first time. Then the middleman of that storage is "+
			"killed.", reader, victim)
	t.row(ctx, "before   %-8s %9s  answered by %s", before, took(before.took), before.by)
	t.row(ctx, "after    %-8s %9s  answered by %s", during, took(during.took), during.by)
	t.verify(ctx, before.by == victim && during.by != victim && during.by != "" && during.value == "paid",
		fmt.Sprintf("Without %s, reads return the same value from another ring.", victim),
		fmt.Sprintf("Reads were answered by %s and then by %s, with %s.", before.by, during.by, during))

	restarted := time.Now()
	if err := t.d.Inject(ctx, local.Fault{Kind: "restart", DC: victim, Part: "middleman"}); err != nil {
		return err
	}
	keys = keys[1:]
	reads, wrong := 0, 0
	err = until(ctx, victim+" answers again", func() (bool, error) {
		if reads == len(keys) {
			return false, fmt.Errorf("for %[2]s after its restart, %[1]d reads were not answered by %[3]s", reads,
				took(time.Since(restarted)), victim)
		}
		r, err := t.traced(ctx, reader, keys[reads])
		reads++
		if err == nil && r.value != "paid" {
			wrong++
		}
		return r.by == victim, err
	})
	if err != nil {
		return err
	}
	t.verify(ctx, wrong == 0,
		fmt.Sprintf("After its restart it answers again within %s; %s until then, all correct.",
			took(time.Since(restarted)), count(reads, "read")),
		fmt.Sprintf("%d of %s after the restart were wrong.", wrong, count(reads, "read")))
	return nil
}

// traced is a reading with the data centers whose shards answered it.
type traced struct {
	reading
	by string
}

func (t *tour) traced(ctx context.Context, dc, key string) (traced, error) {
	before := t.readsServed()
	r, err := t.get(ctx, dc, key)
	return traced{reading: r, by: strings.Join(t.servedBy(before), " and ")}, err
}
