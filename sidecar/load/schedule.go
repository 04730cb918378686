package load

import (
	"context"
	"time"
)

// schedule says when the operations of one connection are due, in time since the start of the run. A nil schedule is the
// closed loop: at once.
type schedule struct {
	now   func() time.Duration
	every time.Duration
	at    time.Duration
}

// newSchedule spreads rate operations a second over the connections, each with an offset of its own.
func newSchedule(rate float64, number, connections int, now func() time.Duration) *schedule {
	if rate == 0 {
		return nil
	}
	every := float64(connections) / rate * float64(time.Second)
	return &schedule{now: now, every: time.Duration(every), at: time.Duration(every * float64(number) / float64(connections))}
}

// next waits until the next n operations are due and returns when that was, which may be long ago. It reports false when
// ctx has ended.
func (s *schedule) next(ctx context.Context, n int) (time.Duration, bool) {
	if s == nil {
		return 0, ctx.Err() == nil
	}
	due := s.at
	s.at += s.every * time.Duration(n)
	return due, pause(ctx, due-s.now())
}
