package canary

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// errRunning refuses what must not happen while sessions write.
var errRunning = errors.New("the canary has not stopped; stop it first")

func (c *Canary) isStopped() bool {
	select {
	case <-c.stopped:
		return true
	default:
		return false
	}
}

// ReadFinally reads every key after the sessions have ended, in a session of its own, and returns the operations as
// JSON lines. They are no part of the report: values may still be on their way, so callers repeat this until the
// answers of all data centers agree.
func (c *Canary) ReadFinally(round int) (string, error) {
	if !c.isStopped() {
		return "", errRunning
	}
	s := newSession(c, fmt.Sprintf("%s/final-%d", c.incarnation, round), uint64(c.config.Sessions)+2)
	defer s.close()
	var lines []byte
	for i := range c.config.Keys {
		op := history.Op{Kind: history.Get, Key: c.key(i), Session: s.name, Process: s.name, DC: c.config.DataCenter,
			Final: true, Start: time.Now().UnixNano()}
		pipe := s.conn.Pipeline()
		reply, last := pipe.Get(context.Background(), op.Key), pipe.Do(context.Background(), "CAUSAL", "LAST")
		_, _ = pipe.Exec(context.Background()) // errors are in the commands
		op.End = time.Now().UnixNano()
		if err := fill(&op, reply); err != nil {
			return "", fmt.Errorf("read %s in %s: %w", op.Key, c.config.DataCenter, err)
		}
		if forged := c.forged(&op); forged != "" {
			c.sample(Sample{Kind: Forged, Start: op.Start, End: op.End, Text: forged})
			continue
		}
		op.Version, _ = versionOf(last)
		var err error
		if lines, err = history.AppendJSON(lines, &op); err != nil {
			return "", err
		}
		lines = append(lines, '\n')
	}
	return string(lines), nil
}

// Delete deletes all keys of the run.
func (c *Canary) Delete() error {
	if !c.isStopped() {
		return errRunning
	}
	s := newSession(c, c.incarnation+"/delete", uint64(c.config.Sessions)+3)
	defer s.close()
	for i := range c.config.Keys {
		if err := s.conn.Del(context.Background(), c.key(i)).Err(); err != nil {
			return fmt.Errorf("delete %s: %w; it expires by itself", c.key(i), err)
		}
	}
	return nil
}

// versionOf parses the reply to CAUSAL LAST.
func versionOf(cmd *redis.Cmd) (causal.Version, error) {
	parts, err := cmd.Slice()
	if err != nil || len(parts) == 0 {
		return causal.Version{}, err
	}
	text, _ := parts[0].(string)
	if text == "" {
		return causal.Version{}, nil
	}
	return history.ParseVersion(text)
}
