package node

import (
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// problemLogInterval is how often a problem that lasts is logged.
const problemLogInterval = 10 * time.Second

// The waits between attempts at a write that a disk or storage refuses. Whatever the number of writes that wait, there
// is one attempt at a time, so the load on a storage that is in trouble is bounded; and writes continue within
// diskRetryMax of its recovery.
const (
	diskRetryFirst = 10 * time.Millisecond
	diskRetryMax   = time.Second
)

// diskHealth is what the requests to a storage or disk tell about it: whether the last write succeeded, and how many
// requests have failed.
type diskHealth struct {
	logger  *slog.Logger
	message string // of the log when requests fail

	mu       sync.Mutex
	failures uint64
	problem  error // of the last write; nil if it succeeded
	logged   rate.Sometimes
}

func newDiskHealth(logger *slog.Logger, message string) *diskHealth {
	if logger == nil {
		logger = slog.Default()
	}
	return &diskHealth{logger: logger, message: message, logged: rate.Sometimes{First: 1, Interval: problemLogInterval}}
}

// noteFailures counts requests that have failed, and logs the reason at a bounded rate.
func (h *diskHealth) noteFailures(n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures += uint64(n)
	h.logged.Do(func() { h.logger.Error(h.message, "error", err, "failuresSinceStart", h.failures) })
}

// noteWrite takes the outcome of a write.
func (h *diskHealth) noteWrite(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil && h.problem != nil {
		h.logger.Info("writes succeed again", "problemBefore", h.problem)
		h.logged = rate.Sometimes{First: 1, Interval: problemLogInterval} // the next problem is logged at once
	}
	h.problem = err
}

func (h *diskHealth) state() (failures uint64, problem error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failures, h.problem
}
