package processes_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// jobItems is how many jobs are pushed.
const jobItems = 2400

// Eight consumers at two sidecars wait for jobs, while the coordinators of a, which are the homes of the keys, are
// killed one after the other. No job is handed out twice, and each that was acknowledged is handed out, unless a take
// of unknown outcome has taken it.
func TestWaitingConsumersGetEachJobOnceWhileHomesAreKilled(t *testing.T) {
	d := startHomes(t)
	j := &jobs{queueLoad{pushed: map[string]bool{}, taken: map[string]int{}}}
	j.begin(d)
	for n := range 8 {
		j.run(d, n, func(c *redis.Client, _ int) bool {
			j.await(c, fmt.Sprint("jobs", n%2))
			return true
		})
	}
	for n := range 3 {
		j.producers = append(j.producers, j.run(d, n, func(c *redis.Client, i int) bool {
			j.pushTo(c, fmt.Sprint("jobs", i%2), fmt.Sprintf("%d:%06d", n, i))
			return i+1 < jobItems/3
		}))
	}
	for _, name := range []string{"a-coordinator", "a-coordinator-1", "a-coordinator"} {
		j.more(t, jobItems/6)
		d.kill(name)
		time.Sleep(500 * time.Millisecond) // it is away while clients wait
		d.restart(name)
	}
	for _, done := range j.producers {
		<-done
	}
	eventually(t, "all jobs to be handed out", func() error {
		if n := j.missing(); n > 0 {
			return fmt.Errorf("%d jobs were acknowledged, and not handed out", n)
		}
		return nil
	})
	j.judge(t)
}

// jobs are what those are told who push jobs, and who wait for them.
type jobs struct{ queueLoad }

func (j *jobs) pushTo(c *redis.Client, key, job string) {
	err := c.RPush(j.context, key, job).Err()
	for err != nil && isNotExecuted(err) && j.context.Err() == nil {
		err = c.RPush(j.context, key, job).Err()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pushed[job] = err == nil
}

func (j *jobs) await(c *redis.Client, key string) {
	got, err := c.BLPop(j.context, time.Second, key).Result()
	if errors.Is(err, redis.Nil) || j.context.Err() != nil {
		return
	}
	j.note(err, func() { j.taken[got[1]]++ }, func() { j.unknownTakes++ })
}

func (j *jobs) judge(t *testing.T) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for job, times := range j.taken {
		if _, isPushed := j.pushed[job]; times > 1 || !isPushed {
			t.Errorf("%s was handed out %d times; pushed: %v", job, times, isPushed)
		}
	}
	t.Logf("%d of %d jobs were handed out; the outcome of %d takes is unknown", len(j.taken), jobItems, j.unknownTakes)
}
