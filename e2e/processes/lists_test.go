package processes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Producers and two consumers, at both sidecars of a, use a queue, while the coordinators of a, which are the homes of
// the keys, are killed one after the other. No item is handed out twice, those of a producer come in their order, and
// each that was acknowledged is handed out, unless a take of unknown outcome has taken it.
func TestAQueueIsExactWhileItsHomesAreKilled(t *testing.T) {
	d := planDeployment(t, nil, oneRedis)
	d.addHome("a")
	d.addSidecar("a")
	d.startAll()
	q := d.startQueue()
	for _, name := range []string{"a-coordinator", "a-coordinator-1", "a-middleman", "a-coordinator"} {
		q.more(t, 100)
		d.kill(name)
		time.Sleep(500 * time.Millisecond) // it is away while clients go on
		d.restart(name)
	}
	q.more(t, 100)
	q.stopProducers()
	q.drain(t)
	q.check(t)
}

// queueLoad is what producers and consumers of a queue have been told.
type queueLoad struct {
	context   context.Context
	cancel    context.CancelFunc
	producers sync.WaitGroup
	workers   sync.WaitGroup
	isOver    atomic.Bool
	handedOut atomic.Int64

	mu           sync.Mutex
	pushed       map[string]bool // true: acknowledged; false: the outcome is unknown
	taken        map[string]int
	byConsumer   [2][]string // in the order in which each was handed them
	unknownTakes int
}

func (d *deployment) startQueue() *queueLoad {
	q := &queueLoad{pushed: map[string]bool{}, taken: map[string]int{}}
	q.context, q.cancel = context.WithTimeout(d.t.Context(), 3*patience)
	d.t.Cleanup(func() {
		q.cancel()
		q.producers.Wait()
		q.workers.Wait()
	})
	for n := range 3 {
		c := d.clientOf([]string{"a-sidecar", "a-sidecar-2"}[n%2])
		q.producers.Go(func() {
			for i := 0; q.context.Err() == nil && !q.isOver.Load(); i++ {
				q.push(c, fmt.Sprintf("%d:%06d", n, i))
			}
		})
	}
	for n := range 2 {
		c := d.clientOf([]string{"a-sidecar", "a-sidecar-2"}[n])
		q.workers.Go(func() {
			for q.context.Err() == nil {
				q.take(c, n)
			}
		})
	}
	return q
}

func (q *queueLoad) push(c *redis.Client, item string) {
	err := c.RPush(q.context, "queue", item).Err()
	if isNotExecuted(err) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pushed[item] = err == nil
}

func (q *queueLoad) take(c *redis.Client, consumer int) {
	item, err := c.LPop(q.context, "queue").Result()
	switch {
	case errors.Is(err, redis.Nil):
		time.Sleep(time.Millisecond)
		return
	case isNotExecuted(err):
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.unknownTakes++
		return
	}
	q.taken[item]++
	q.byConsumer[consumer] = append(q.byConsumer[consumer], item)
	q.handedOut.Add(1)
}

// isNotExecuted reports whether an error says that nothing was written.
func isNotExecuted(err error) bool {
	for _, code := range []string{"UNAVAILABLE", "BUSY", "CONFLICT"} {
		if err != nil && strings.HasPrefix(err.Error(), code) {
			return true
		}
	}
	return false
}

// more waits until a number of further items were handed out.
func (q *queueLoad) more(t *testing.T, n int64) {
	t.Helper()
	until := q.handedOut.Load() + n
	eventually(t, "items to be handed out", func() error {
		if got := q.handedOut.Load(); got < until {
			return fmt.Errorf("%d of %d", got, until)
		}
		return nil
	})
}

func (q *queueLoad) stopProducers() {
	q.isOver.Store(true)
	q.producers.Wait()
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
	q.cancel()
	q.workers.Wait()
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
