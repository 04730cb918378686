//go:build e2e

package drains_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/causalstore/causalstore/e2e/kube"
)

// operatorLog is what all pods of the operator log, also those that are evicted meanwhile.
type operatorLog struct {
	mu   sync.Mutex
	pods map[string]*bytes.Buffer
}

// followOperator follows the logs of the pods of the operator until the test ends.
func followOperator(t *testing.T) *operatorLog {
	l := &operatorLog{pods: map[string]*bytes.Buffer{}}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	all.Go(func() {
		for tick := time.NewTicker(time.Second); ; {
			for _, pod := range runningOperators(ctx) {
				if l.begin(pod) {
					all.Go(func() { l.follow(ctx, pod) })
				}
			}
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	})
	return l
}

// runningOperators returns the names of the pods of the operator that have logs.
func runningOperators(ctx context.Context) []string {
	cmd, err := kube.Kubectl(ctx, "-n", kube.OperatorNamespace, "get", "pods", "-l",
		"app.kubernetes.io/name=causalstore-operator", "--field-selector=status.phase=Running", "-o",
		"jsonpath={.items[*].metadata.name}")
	if err != nil {
		return nil
	}
	out, err := cmd.Output()
	if err != nil {
		return nil // asked again
	}
	return strings.Fields(string(out))
}

func (l *operatorLog) begin(pod string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pods[pod] != nil {
		return false
	}
	l.pods[pod] = &bytes.Buffer{}
	return true
}

// follow notes what a pod logs until it ends or the test does. A pod that is still starting is asked again.
func (l *operatorLog) follow(ctx context.Context, pod string) {
	cmd, err := kube.Kubectl(ctx, "-n", kube.OperatorNamespace, "logs", "--follow", pod)
	if err != nil {
		return
	}
	stop := context.AfterFunc(ctx, func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
		}
	})
	defer stop()
	cmd.Stdout = &podLog{l, pod}
	if cmd.Run() != nil && ctx.Err() == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.pods[pod].Len() == 0 {
			delete(l.pods, pod)
		}
	}
}

// podLog writes to the log of a pod.
type podLog struct {
	to  *operatorLog
	pod string
}

func (p *podLog) Write(b []byte) (int, error) {
	p.to.mu.Lock()
	defer p.to.mu.Unlock()
	return p.to.pods[p.pod].Write(b)
}

// assertNoErrors checks that something was logged, and no line of it is an error.
func (l *operatorLog) assertNoErrors(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	lines, reconciled := 0, false
	for _, pod := range slices.Sorted(maps.Keys(l.pods)) {
		for _, line := range strings.Split(strings.TrimSpace(l.pods[pod].String()), "\n") {
			lines++
			var r struct{ Level, Logger, Msg, Err string }
			switch err := json.Unmarshal([]byte(line), &r); {
			case err == nil && r.Logger == "leaderelection" && strings.Contains(r.Err, "already exists"):
				// both replicas have begun at the same moment; who comes second tries again
			case err == nil && r.Msg == "error received after stop sequence was engaged" &&
				r.Err == "leader election lost": // its node was drained, and it has given the lease back
			case err == nil && (r.Level == "ERROR" || r.Level == "WARN"):
				t.Logf("%s: %s", pod, line)
				if r.Level == "ERROR" {
					t.Errorf("%s has logged an error", pod)
				}
			case err != nil && line != "":
				t.Errorf("%s has written what is no record of a log: %s", pod, line)
			}
			reconciled = reconciled || strings.Contains(line, store)
		}
	}
	t.Logf("%d lines of %d pods of the operator", lines, len(l.pods))
	if !reconciled {
		t.Error("no line names the store, so the logs are not those of the operator at work")
	}
}
