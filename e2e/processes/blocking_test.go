package processes_test

import (
	"context"
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
	d := planDeployment(t, nil, oneRedis)
	d.addHome("a")
	d.addSidecar("a")
	d.startAll()
	sidecars := []string{"a-sidecar", "a-sidecar-2"}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	j := &jobs{queueLoad: queueLoad{context: ctx, cancel: cancel, pushed: map[string]bool{}, taken: map[string]int{}}}
	t.Cleanup(func() {
		cancel()
		j.producers.Wait()
		j.workers.Wait()
	})
	for n := range 8 {
		c := d.clientOf(sidecars[n%2])
		j.workers.Go(func() {
			for ctx.Err() == nil {
				j.await(c, fmt.Sprint("jobs", n%2))
			}
		})
	}
	for n := range 3 {
		c := d.clientOf(sidecars[n%2])
		j.producers.Go(func() {
			for i := 0; i < jobItems/3 && ctx.Err() == nil; i++ {
				j.pushTo(c, fmt.Sprint("jobs", i%2), fmt.Sprintf("%d:%06d", n, i))
			}
		})
	}
	for _, name := range []string{"a-coordinator", "a-coordinator-1", "a-coordinator"} {
		j.more(t, jobItems/6)
		d.kill(name)
		time.Sleep(500 * time.Millisecond) // it is away while clients wait
		d.restart(name)
	}
	j.producers.Wait()
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
	for {
		err := c.RPush(j.context, key, job).Err()
		if isNotExecuted(err) && j.context.Err() == nil {
			continue
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.pushed[job] = err == nil
		return
	}
}

func (j *jobs) await(c *redis.Client, key string) {
	got, err := c.BLPop(j.context, time.Second, key).Result()
	if errors.Is(err, redis.Nil) || isNotExecuted(err) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		if j.context.Err() == nil {
			j.unknownTakes++
		}
		return
	}
	j.taken[got[1]]++
	j.handedOut.Add(1)
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
