package demo

import (
	"context"
	"fmt"
	"time"
)

// token shows a session that continues in another data center with everything that it has seen and written.
func (t *tour) token(ctx context.Context) error {
	const from, to = "us-west-1", "ap-southeast-1"
	key, err := t.key("seat", "us-west-2", to)
	if err != nil {
		return err
	}
	start := time.Now()
	if _, err := t.set(ctx, from, key, "12A"); err != nil {
		return err
	}
	token, err := t.clients[from].Do(ctx, "CAUSAL", "TOKEN").Text()
	if err != nil {
		return fmt.Errorf("CAUSAL TOKEN in %s: %w", from, err)
	}
	exported := time.Since(start)
	before, err := t.get(ctx, to, key)
	if err != nil {
		return err
	}
	readAt := time.Since(start)
	if err := t.clients[to].Do(ctx, "CAUSAL", "RESUME", token).Err(); err != nil {
		return fmt.Errorf("CAUSAL RESUME in %s: %w", to, err)
	}
	resumed := time.Since(start)
	after, err := t.get(ctx, to, key)
	if err != nil {
		return err
	}
	t.row(ctx, "+ %7s  %-14s SET %s 12A", took(0), from, key)
	t.row(ctx, "+ %7s  %-14s CAUSAL TOKEN -> %d bytes", took(exported), from, len(token))
	t.row(ctx, "+ %7s  %-14s GET %s -> %s", took(readAt), to, key, before)
	t.row(ctx, "+ %7s  %-14s CAUSAL RESUME", took(resumed), to)
	t.row(ctx, "+ %7s  %-14s GET %s -> %s", took(resumed+after.took), to, key, after)
	t.verify(ctx, after.value == "12A",
		fmt.Sprintf("After RESUME, the session reads its own write in %s.", to),
		fmt.Sprintf("After RESUME in %s, the session read %s, not its own write.", to, after))
	return nil
}
