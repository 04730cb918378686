package processes_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Producers and two consumers, at both sidecars of a, use a queue, while the coordinators of a, which are the homes of
// the keys, are killed one after the other. No item is handed out twice, those of a producer come in their order, and
// each that was acknowledged is handed out, unless a take of unknown outcome has taken it.
func TestAQueueIsExactWhileItsHomesAreKilled(t *testing.T) {
	d := startHomes(t)
	q := d.startQueue()
	q.killHomes(t, d, 200)
	q.stopProducers()
	q.drain(t)
	q.check(t)
}

// queueLoad is what producers and consumers of a queue have been told.
type queueLoad struct {
	homeLoad
	producers []<-chan struct{}
	isOver    atomic.Bool

	pushed       map[string]bool // true: acknowledged; false: the outcome is unknown
	taken        map[string]int
	byConsumer   [2][]string // in the order in which each was handed them
	unknownTakes int
}

func (d *deployment) startQueue() *queueLoad {
	q := &queueLoad{pushed: map[string]bool{}, taken: map[string]int{}}
	q.begin(d)
	for n := range 3 {
		q.producers = append(q.producers, q.run(d, n, func(c *redis.Client, i int) bool {
			q.push(c, fmt.Sprintf("%d:%06d", n, i))
			return !q.isOver.Load()
		}))
	}
	for n := range 2 {
		q.run(d, n, func(c *redis.Client, _ int) bool {
			q.take(c, n)
			return true
		})
	}
	return q
}

func (q *queueLoad) push(c *redis.Client, item string) {
	err := c.RPush(q.context, "queue", item).Err()
	q.note(err, func() { q.pushed[item] = true }, func() { q.pushed[item] = false })
}

func (q *queueLoad) take(c *redis.Client, consumer int) {
	item, err := c.LPop(q.context, "queue").Result()
	if errors.Is(err, redis.Nil) {
		time.Sleep(time.Millisecond)
		return
	}
	q.note(err, func() {
		q.taken[item]++
		q.byConsumer[consumer] = append(q.byConsumer[consumer], item)
	}, func() { q.unknownTakes++ })
}

// stopProducers waits until each has pushed its last item.
func (q *queueLoad) stopProducers() {
	q.isOver.Store(true)
	for _, done := range q.producers {
		<-done
	}
}

// missing returns how many items were acknowledged and not handed out.
func (q *queueLoad) missing() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for item, isAcknowledged := range q.pushed {
		if isAcknowledged && q.taken[item] == 0 {
			n++
		}
	}
	return n - q.unknownTakes // one such take may have taken an item
}

// drain waits until the consumers have taken what is left.
func (q *queueLoad) drain(t *testing.T) {
	t.Helper()
	eventually(t, "the queue to be empty", func() error {
		if n := q.missing(); n > 0 {
			return fmt.Errorf("%d items were acknowledged, and not handed out", n)
		}
		return nil
	})
	q.stop()
}

func (q *queueLoad) check(t *testing.T) {
	t.Helper()
	for item, times := range q.taken {
		if _, isPushed := q.pushed[item]; times > 1 || !isPushed {
			t.Errorf("%s was handed out %d times; pushed: %v", item, times, isPushed)
		}
	}
	for _, items := range q.byConsumer {
		last := map[string]string{}
		for _, item := range items {
			producer, _, _ := strings.Cut(item, ":")
			if !q.pushed[item] { // it may have been executed after its producer was told that it is unknown
				continue
			}
			if item < last[producer] {
				t.Errorf("%s was handed out after %s", item, last[producer])
			}
			last[producer] = item
		}
	}
	t.Logf("%d items were handed out; the outcome of %d takes is unknown", len(q.taken), q.unknownTakes)
}
