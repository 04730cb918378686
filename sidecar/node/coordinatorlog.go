package node

import (
	"errors"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/retry"
	"github.com/causalstore/causalstore/sidecar/wal"
)

// appendLoop appends records to the log. It implements group commit, and is the only place that does: all records that arrive
// during one append, which ends with a sync, share the next append.
func (c *Coordinator) appendLoop() {
	defer close(c.appenderDone)
	var group []coordinator.LogRecord
	var payloads [][]byte
	var buf []byte
	for {
		c.mu.Lock()
		for len(c.appends) == 0 && !c.closing {
			c.wake.Wait()
		}
		group, c.appends = c.appends, group[:0]
		c.mu.Unlock()
		if len(group) == 0 {
			return
		}
		payloads, buf = encodeRecords(payloads[:0], buf[:0], group)
		for len(payloads) > 0 {
			n := groupSize(payloads)
			if err := c.appendGroup(payloads[:n]); err != nil {
				c.failLog(err)
				return
			}
			payloads = payloads[n:]
		}
		clear(group)
	}
}

// segmentBytes is the size of a log segment, and therefore bounds an append; the largest value that a client may write fits.
//
// groupBytes bounds an append of more than one record.
const (
	segmentBytes = 64 << 20
	groupBytes   = 8 << 20
)

// MinLogBytes is the smallest bound of a log. The largest value fits twice.
const MinLogBytes = 64 << 20

// groupSize returns how many of the first records share an append.
func groupSize(payloads [][]byte) int {
	n, size := 0, 0
	for n < len(payloads) && (n == 0 || size+len(payloads[n]) <= groupBytes) {
		size += len(payloads[n])
		n++
	}
	return n
}

// appendGroup makes records durable and informs the machine. If the log is full, it waits until the oldest writes are complete
// and can be truncated; puts are refused long before that. If the disk is full, it waits for that or for space from elsewhere,
// and puts are refused meanwhile.
func (c *Coordinator) appendGroup(payloads [][]byte) error {
	wait := retry.Backoff{First: diskRetryFirst, Max: diskRetryMax}
	for {
		c.truncate()
		last, err := c.log.Append(payloads)
		if err == nil {
			c.disk.noteWrite(nil)
			_, logLimit := c.Limits()
			full := c.log.Bytes() > logLimit
			c.step(func(now causal.Now, m *coordinator.Coordinator) {
				m.SetLogFull(full)
				m.Appended(now, last)
			})
			return nil
		}
		pause := logFullRetry
		switch {
		case errors.Is(err, wal.ErrFull):
		case errors.Is(err, wal.ErrNoSpace):
			c.disk.noteFailures(1, err)
			c.disk.noteWrite(err)
			pause = wait.Next()
		default:
			return err
		}
		c.step(func(_ causal.Now, m *coordinator.Coordinator) { m.SetLogFull(true) })
		c.mu.Lock()
		closing := c.closing
		c.mu.Unlock()
		if closing {
			return err
		}
		time.Sleep(pause)
	}
}

// LogState returns how often the log met a full disk, and why it cannot be written now; nil if it can.
func (c *Coordinator) LogState() (failures uint64, problem error) { return c.disk.state() }

// logFullRetry is the interval between attempts to append to a full log.
const logFullRetry = 50 * time.Millisecond

// truncate removes the records that the machine no longer needs.
func (c *Coordinator) truncate() {
	c.mu.Lock()
	before := c.m.TruncateBefore()
	c.mu.Unlock()
	if before <= c.truncated {
		return
	}
	if err := c.log.TruncateBefore(before); err != nil {
		c.logger.Warn("truncating the write buffer log failed; it will be retried", "error", err)
		return
	}
	c.truncated = before
}

func encodeRecords(payloads [][]byte, buf []byte, group []coordinator.LogRecord) ([][]byte, []byte) {
	ends := make([]int, 0, len(group))
	for i := range group {
		buf = group[i].AppendTo(buf)
		ends = append(ends, len(buf))
	}
	start := 0
	for _, end := range ends {
		payloads = append(payloads, buf[start:end:end])
		start = end
	}
	return payloads, buf
}

// failLog stops the coordinator, because writes that the log may have lost must not be acknowledged.
func (c *Coordinator) failLog(err error) {
	c.logFailed.Store(true)
	c.stop()
	if errors.Is(err, wal.ErrClosed) {
		return
	}
	c.logger.Error("the write buffer log failed; this coordinator stops", "error", err)
	if c.onFailure != nil {
		c.onFailure(err)
	}
}
