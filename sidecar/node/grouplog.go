package node

import (
	"errors"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/retry"
	"github.com/causalstore/causalstore/sidecar/wal"
)

// appendLoop appends entries to the log. It implements group commit, and is the only place that does: all entries that
// arrive during one append, which ends with a sync, share the next append. The step that has brought them has sent them
// to the other members before, so that all disks are synced at the same time.
func (c *groupHost[M]) appendLoop() {
	defer close(c.appenderDone)
	w := logWriter[M]{c: c}
	for {
		c.mu.Lock()
		for !c.hasWork() && !c.isDone() {
			c.wake.Wait()
		}
		reset := c.m.NeedsReset() && !c.stopped
		done := !c.hasWork() || c.abandoned
		w.entries, c.entries = c.entries, w.entries[:0]
		c.mu.Unlock()
		if done {
			return
		}
		if err := w.write(reset); err != nil {
			c.failed.Do(func() { c.fail(err) })
			return
		}
	}
}

// hasWork reports whether appendLoop has something to do. Called with the lock held.
func (c *groupHost[M]) hasWork() bool { return len(c.entries) > 0 || c.m.NeedsReset() && !c.closing }

// isDone reports whether appendLoop may end. Called with the lock held.
func (c *groupHost[M]) isDone() bool {
	return c.closing && (c.abandoned || c.stopped || c.o.isSettled(c.m))
}

// logWriter writes entries to the log of a member.
type logWriter[M groupMachine] struct {
	c        *groupHost[M]
	entries  []group.Entry
	payloads [][]byte
	ends     []int
	buf      []byte
}

// write makes the entries durable, or empties the volume.
func (w *logWriter[M]) write(reset bool) error {
	c := w.c
	defer func() { clear(w.entries) }()
	if reset {
		return c.reset()
	}
	last := w.entries[len(w.entries)-1].Index
	if c.log == nil { // a damaged volume takes nothing, and its member says nothing that has to be remembered
		c.step(func(now causal.Now, m M) { m.Appended(now, last) })
		return nil
	}
	for entries := w.entries; len(entries) > 0; {
		n := w.encode(entries)
		if err := c.appendGroup(w.payloads); err != nil {
			return err
		}
		clear(entries[:n]) // what a slow disk has left to write may be much
		entries = entries[n:]
	}
	return nil
}

// encode encodes the first of some entries, which share an append, and returns how many.
func (w *logWriter[M]) encode(entries []group.Entry) (n int) {
	w.buf, w.ends, w.payloads = w.buf[:0], w.ends[:0], w.payloads[:0]
	if cap(w.buf) > 2*groupBytes {
		w.buf = nil
	}
	for n < len(entries) {
		before := len(w.buf)
		if w.buf = entries[n].AppendTo(w.buf); n > 0 && len(w.buf) > groupBytes {
			w.buf = w.buf[:before]
			break
		}
		w.ends = append(w.ends, len(w.buf))
		n++
	}
	start := 0
	for _, end := range w.ends {
		w.payloads = append(w.payloads, w.buf[start:end:end])
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

// appendGroup makes entries durable and informs the machine. If the log is full, it waits until the oldest entries are
// needed no more and can be truncated. If the disk is full, it waits for that or for space from elsewhere. setDiskFull
// and NoteFullDisk say so meanwhile: a coordinator refuses puts long before its log is full.
func (c *groupHost[M]) appendGroup(payloads [][]byte) error {
	wait := retry.Backoff{First: diskRetryFirst, Max: diskRetryMax}
	for {
		c.truncate()
		last, err := c.log.Append(payloads)
		if err == nil {
			if _, problem := c.disk.state(); problem != nil {
				c.volume.reserveSpare()
			}
			c.disk.noteWrite(nil)
			full := c.log.Bytes() > refusalSize(c.o.maxLogBytes)
			c.step(func(now causal.Now, m M) {
				c.o.setDiskFull(m, full)
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
		noSpace := errors.Is(err, wal.ErrNoSpace)
		c.step(func(_ causal.Now, m M) {
			if noSpace {
				m.NoteFullDisk()
			} else {
				c.o.setDiskFull(m, true)
			}
		})
		c.mu.Lock()
		closing := c.closing
		c.mu.Unlock()
		if closing {
			return err
		}
		time.Sleep(pause)
	}
}

// appendAtStart makes the entries of a start durable. On a full disk it uses the spare space.
func (c *groupHost[M]) appendAtStart(log *wal.Log, entries []group.Entry) error {
	w := logWriter[M]{c: c}
	for len(entries) > 0 {
		n := w.encode(entries)
		_, err := log.Append(w.payloads)
		if errors.Is(err, wal.ErrNoSpace) && c.volume.releaseSpare() {
			_, err = log.Append(w.payloads)
		}
		if err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// logFullRetry is the interval between attempts to append to a full log.
const logFullRetry = 50 * time.Millisecond

// truncate removes the entries that the machine no longer needs.
func (c *groupHost[M]) truncate() {
	c.mu.Lock()
	before := c.m.TruncateBefore()
	c.mu.Unlock()
	if before <= c.truncated {
		return
	}
	if err := c.log.TruncateBefore(before); err != nil {
		c.logger.Warn("truncating the log failed; it will be retried", "dir", c.volume.dir, "error", err)
		return
	}
	c.truncated = before
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
