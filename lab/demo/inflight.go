package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// sighting is what a reader saw of a write that was not in every ring yet.
type sighting struct {
	key     string
	seen    reading
	seenAt  time.Duration // since the write began
	changes []change
	// While the session was bound: how many reads it made, the slowest one, and the wrong values that they returned.
	reads   int
	slowest time.Duration
	wrong   []string
}

// change is a changed answer of CAUSAL STATUS.
type change struct {
	status
	at time.Duration
}

// inFlight shows a session that has read a write that is not in every ring: it is bound to the rings that have the
// write, which become more, until all have it.
func (t *tour) inFlight(ctx context.Context) error {
	const writer, reader, attempts = "us-east-1", "us-west-1", 5
	var s sighting
	for attempt := 1; ; attempt++ {
		var err error
		if s, err = t.sight(ctx, writer, reader); err != nil {
			return err
		}
		if s.seen.status == "in-flight" && len(s.changes) > 0 && s.changes[0].bound {
			break
		}
		if attempt == attempts {
			return fmt.Errorf("in each of %d attempts %s saw the write only after it had reached every ring",
				attempts, reader)
		}
	}
	all := len(t.topo.Rings)
	t.say(ctx, "%s writes; %s reads repeatedly, and asks CAUSAL STATUS which rings it is bound to:", writer, reader)
	t.row(ctx, "+ %7s  %-10s SET %s boarding", took(0), writer, s.key)
	t.row(ctx, "+ %7s  %-10s GET %s -> %s, %s", took(s.seenAt), reader, s.key, s.seen, s.seen.status)
	grown := true
	for i, c := range s.changes {
		if c.bound {
			t.row(ctx, "+ %7s  %-10s reads from %s", took(c.at), reader, strings.Join(c.rings, ", "))
		} else {
			t.row(ctx, "+ %7s  %-10s no longer bound: reads from anywhere", took(c.at), reader)
		}
		if i > 0 {
			for _, r := range s.changes[i-1].rings {
				grown = grown && slices.Contains(c.rings, r)
			}
		}
	}
	first, last := s.changes[0], s.changes[len(s.changes)-1]
	steps := fmt.Sprintf("from %d of %d rings to %d", len(first.rings), all, len(last.rings))
	t.verify(ctx, grown && len(first.rings) < all && !last.bound && len(last.rings) == all,
		fmt.Sprintf("The session was bound for %s; the rings that it may read from only grew, %s.",
			took(last.at-s.seenAt), steps),
		fmt.Sprintf("The rings that the session may read from went %s, which is not allowed.", steps))
	t.verify(ctx, len(s.wrong) == 0,
		fmt.Sprintf("%s meanwhile, the slowest in %s: never an older value.", count(s.reads, "read"), took(s.slowest)),
		fmt.Sprintf("Reads while the session was bound returned %s.", strings.Join(s.wrong, ", ")))
	return nil
}

// sight writes a new key and follows the reader until its session is no longer bound.
func (t *tour) sight(ctx context.Context, writer, reader string) (sighting, error) {
	key, err := t.key("flight", "us-west-2", "ap-southeast-1")
	if err != nil {
		return sighting{}, err
	}
	s := sighting{key: key}
	start := time.Now()
	if _, err := t.set(ctx, writer, key, "boarding"); err != nil {
		return s, err
	}
	err = until(ctx, reader+" reads "+key, func() (bool, error) {
		s.seen, err = t.get(ctx, reader, key)
		return !s.seen.missing, err
	})
	if err != nil {
		return s, err
	}
	s.seenAt = time.Since(start)
	released := make(chan struct{})
	var reading sync.WaitGroup
	var readErr error
	reading.Go(func() { readErr = s.follow(ctx, t, reader, released) })
	err = until(ctx, "the session of "+reader+" is no longer bound", func() (bool, error) {
		st, err := t.status(ctx, reader)
		if n := len(s.changes); err == nil && (n == 0 || !st.equal(s.changes[n-1].status)) {
			s.changes = append(s.changes, change{status: st, at: time.Since(start)})
		}
		return !st.bound, err
	})
	close(released)
	reading.Wait()
	return s, errors.Join(err, readErr)
}

// follow reads until the session is released.
func (s *sighting) follow(ctx context.Context, t *tour, reader string, released <-chan struct{}) error {
	for {
		r, err := t.get(ctx, reader, s.key)
		if err != nil {
			return err
		}
		s.reads++
		s.slowest = max(s.slowest, r.took)
		if r.value != "boarding" {
			s.wrong = append(s.wrong, r.String())
		}
		select {
		case <-released:
			return nil
		default:
		}
	}
}
