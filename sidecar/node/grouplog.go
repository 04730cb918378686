package node

import (
	"errors"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/wal"
)

// appendLoop carries out what the LogWriter of the member asks for, and is the only place that appends to the log.
func (c *groupHost[M]) appendLoop() {
	defer close(c.appenderDone)
	var e entryEncoder
	for {
		task, ok := c.nextTask()
		if !ok {
			return
		}
		if err := c.carryOut(&task, &e); err != nil {
			c.failed.Do(func() { c.fail(err) })
			return
		}
	}
}

// nextTask waits for something to do. It returns false when appendLoop ends.
func (c *groupHost[M]) nextTask() (process.LogTask, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ; ; c.wake.Wait() {
		switch ends := c.closing || c.stopped; {
		case c.abandoned:
			return process.LogTask{}, false
		case ends && c.m.NeedsReset(): // the next start does that
			if c.closing {
				return process.LogTask{}, false
			}
			continue
		}
		if t, ok := c.writer.Next(); ok {
			return t, true
		}
		if c.closing && (c.stopped || c.o.isSettled(c.m)) {
			return process.LogTask{}, false
		}
	}
}

// carryOut makes the entries of a task durable, or empties the volume.
func (c *groupHost[M]) carryOut(t *process.LogTask, e *entryEncoder) error {
	switch t.Kind {
	case process.LogReset:
		return c.reset()
	case process.LogSkip:
		c.report(process.LogResult{Appended: len(t.Entries)})
		return nil
	}
	return c.append(t, e)
}

// report tells the LogWriter what has become of a task, and returns how long to wait.
func (c *groupHost[M]) report(r process.LogResult) (wait time.Duration) {
	c.step(func(now causal.Now, _ M) { wait = c.writer.Done(now, r) })
	return wait
}

// entryEncoder encodes entries into memory that it uses again.
type entryEncoder struct {
	payloads [][]byte
	ends     []int
	buf      []byte
}

// encode encodes the first of some entries, which share an append, and returns how many.
func (e *entryEncoder) encode(entries []group.Entry) (n int) {
	e.buf, e.ends, e.payloads = e.buf[:0], e.ends[:0], e.payloads[:0]
	if cap(e.buf) > 2*groupBytes {
		e.buf = nil
	}
	for n < len(entries) {
		before := len(e.buf)
		if e.buf = entries[n].AppendTo(e.buf); n > 0 && len(e.buf) > groupBytes {
			e.buf = e.buf[:before]
			break
		}
		e.ends = append(e.ends, len(e.buf))
		n++
	}
	start := 0
	for _, end := range e.ends {
		e.payloads = append(e.payloads, e.buf[start:end:end])
		start = end
	}
	return n
}

// segmentBytes is the size of a log segment, and therefore bounds an append; the largest value that a client may write
// fits.
//
// groupBytes bounds an append of more than one entry. logReserve is the room in the log, beside a segment, for what was
// accepted below its bound, and for the entries that allow the oldest ones to be removed.
const (
	segmentBytes = 64 << 20
	groupBytes   = 8 << 20
	logReserve   = 32 << 20
)

// MinLogBytes is the smallest bound of a log. The largest value fits twice.
const MinLogBytes = 64 << 20

// append truncates the log, makes the first entries of a task durable, and reports that. If the log or the disk is
// full, it reports that, and waits until the task is to be tried again.
func (c *groupHost[M]) append(t *process.LogTask, e *entryEncoder) error {
	r := process.LogResult{IsTruncated: c.truncate(t.TruncateBefore), Appended: e.encode(t.Entries)}
	_, err := c.log.Append(e.payloads)
	switch {
	case err == nil:
		if _, problem := c.disk.state(); problem != nil {
			c.volume.reserveSpare()
		}
		c.disk.noteWrite(nil)
		r.IsNearlyFull = c.log.Bytes() > refusalSize(c.o.maxLogBytes)
	case errors.Is(err, wal.ErrFull):
		r.Appended, r.Problem = 0, process.LogIsFull
	case errors.Is(err, wal.ErrNoSpace):
		c.disk.noteFailures(1, err)
		c.disk.noteWrite(err)
		r.Appended, r.Problem = 0, process.DiskIsFull
	default:
		return err
	}
	wait := c.report(r)
	if err == nil {
		return nil
	}
	c.mu.Lock()
	closing := c.closing
	c.mu.Unlock()
	if closing {
		return err
	}
	time.Sleep(wait)
	return nil
}

// appendAtStart makes the entries of a start durable. On a full disk it uses the spare space.
func (c *groupHost[M]) appendAtStart(log *wal.Log, entries []group.Entry) error {
	var e entryEncoder
	for len(entries) > 0 {
		n := e.encode(entries)
		_, err := log.Append(e.payloads)
		if errors.Is(err, wal.ErrNoSpace) && c.volume.releaseSpare() {
			_, err = log.Append(e.payloads)
		}
		if err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// truncate removes the entries before one. It reports whether they are gone; if not, it is asked for that again.
func (c *groupHost[M]) truncate(before uint64) bool {
	if before == 0 {
		return false
	}
	err := c.log.TruncateBefore(before)
	if err != nil {
		c.logger.Warn("truncating the log failed; it will be retried", "dir", c.volume.dir, "error", err)
	}
	return err == nil
}

// reset empties the volume, which is damaged and which the other members do without, and starts over with another
// volume id.
func (c *groupHost[M]) reset() error {
	c.logger.Warn("emptying the damaged volume; the log comes from the other members", "dir", c.volume.dir)
	if c.o.suspend != nil {
		defer c.o.suspend()()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.closeLog(); err != nil {
		c.logger.Warn("closing the damaged log failed", "error", err)
	}
	if err := c.volume.empty(); err != nil {
		return err
	}
	return c.start()
}

// fail stops the member, because writes that the log may have lost must not be acknowledged.
func (c *groupHost[M]) fail(err error) {
	c.logFailed.Store(true)
	c.stop()
	if errors.Is(err, wal.ErrClosed) {
		return
	}
	c.logger.Error("the log failed; this member stops", "node", c.MemberNode(), "dir", c.volume.dir, "error", err)
	if c.o.onFailure != nil {
		c.o.onFailure(err)
	}
}
