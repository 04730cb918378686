package processes_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// homeLoad is clients at both sidecars of a, which note what they are told while the homes of their keys are killed.
type homeLoad struct {
	context  context.Context
	cancel   context.CancelFunc
	workers  sync.WaitGroup
	answered atomic.Int64

	mu sync.Mutex // of what is noted
}

// startHomes starts a deployment with two sidecars and two coordinators in a.
func startHomes(t *testing.T) *deployment {
	t.Helper()
	d := planDeployment(t, nil, oneRedis)
	d.addHome("a")
	d.addSidecar("a")
	d.startAll()
	return d
}

// begin bounds the load by the test, and by a time.
func (l *homeLoad) begin(d *deployment) {
	l.context, l.cancel = context.WithTimeout(d.t.Context(), 3*patience)
	d.t.Cleanup(l.stop)
}

// run has the n-th client call f until that returns false, or the load ends; done is closed then.
func (l *homeLoad) run(d *deployment, n int, f func(c *redis.Client, i int) bool) (done <-chan struct{}) {
	c, closed := d.clientOf([]string{"a-sidecar", "a-sidecar-2"}[n%2]), make(chan struct{})
	l.workers.Go(func() {
		defer close(closed)
		for i := 0; l.context.Err() == nil && f(c, i); i++ {
		}
	})
	return closed
}

// note notes the outcome of a command: what was answered, or whether it may have been executed.
func (l *homeLoad) note(err error, answered, unknown func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		answered()
		l.answered.Add(1)
	case !isNotExecuted(err):
		unknown()
	}
}

// isNotExecuted reports whether an error says that nothing was written.
func isNotExecuted(err error) bool {
	for _, code := range []string{"UNAVAILABLE", "BUSY", "CONFLICT"} {
		if strings.HasPrefix(err.Error(), code) {
			return true
		}
	}
	return false
}

// more waits until a number of further commands were answered.
func (l *homeLoad) more(t *testing.T, n int64) {
	t.Helper()
	until := l.answered.Load() + n
	eventually(t, "commands to be answered", func() error {
		if got := l.answered.Load(); got < until {
			return fmt.Errorf("%d of %d", got, until)
		}
		return nil
	})
}

// killHomes kills the coordinators and the shard of a one after the other, while commands are answered.
func (l *homeLoad) killHomes(t *testing.T, d *deployment, each int64) {
	t.Helper()
	for _, name := range []string{"a-coordinator", "a-coordinator-1", "a-middleman", "a-coordinator"} {
		l.more(t, each)
		d.kill(name)
		time.Sleep(500 * time.Millisecond) // it is away while clients go on
		d.restart(name)
	}
	l.more(t, each)
}

func (l *homeLoad) stop() {
	l.cancel()
	l.workers.Wait()
}
