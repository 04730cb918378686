package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/causalstore/causalstore/sidecar/node"
)

// maxLossWait is how long acceptLoss waits for coordinators to find out that their logs are lost: all shards have to
// answer first.
const maxLossWait = 30 * time.Second

// acceptLoss gives up the logs of coordinators that have lost them, as a person would do with kubectl causal.
func (d *Deployment) acceptLoss(ctx context.Context, f Fault) error {
	if f.Part != "coordinator" || f.Member != 0 {
		return errors.New("only the logs of coordinators are given up; set part to coordinator, and leave member out")
	}
	d.mu.Lock()
	parts, err := d.selected(f)
	var up []*node.Coordinator
	for _, p := range parts {
		if p.coordinator != nil {
			up = append(up, p.coordinator)
		}
	}
	d.mu.Unlock()
	for until := time.Now().Add(maxLossWait); err == nil; {
		if left := tryAcceptLoss(up); left == nil || time.Now().After(until) {
			return left
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// tryAcceptLoss returns nil if a coordinator has given up its log. Of several members, one is asked.
func tryAcceptLoss(up []*node.Coordinator) error {
	err := errors.New("no coordinator is up; restart it first")
	for _, c := range up {
		if err = c.AcceptLoss(c.Status().Config.Epoch); err == nil {
			return nil
		}
	}
	return fmt.Errorf("give up a log: %w", err)
}
