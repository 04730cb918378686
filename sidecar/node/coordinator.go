package node

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/sidecar/wal"
)

// Coordinator runs a causal.Coordinator on a write-buffer log.
type Coordinator struct {
	*Host
	log     *wal.Log
	logger  *slog.Logger
	maxLog  int64
	failure func(error)

	work    sync.Cond // on Host.mu: something to append, or stopping
	appends []causal.Message
	closing bool
	ended   chan struct{}

	truncated uint64 // of the log; only the writing goroutine uses it
}

// CoordinatorOptions is what a coordinator runs on.
type CoordinatorOptions struct {
	Config causal.CoordinatorConfig
	Clock  Clock
	Net    transport.Network
	// Dir is where the log is.
	Dir string
	// MaxLogBytes bounds the log on disk; 0 is wal's default. At nine tenths of it puts are refused.
	MaxLogBytes int64
	Logger      *slog.Logger
	// Failed is called once if the log fails: the coordinator then acknowledges nothing any more.
	Failed func(error)
}

// NewCoordinator opens the log and goes on with what it holds. The caller registers Handle with the network afterwards.
func NewCoordinator(o CoordinatorOptions) (*Coordinator, error) {
	if o.MaxLogBytes == 0 {
		o.MaxLogBytes = wal.DefaultMaxBytes
	}
	if o.MaxLogBytes < MinLogBytes {
		return nil, fmt.Errorf("write buffer log of at most %d bytes: give at least %d, so that the greatest value fits twice", o.MaxLogBytes, MinLogBytes)
	}
	log, err := wal.Open(o.Dir, wal.Options{Logger: o.Logger, MaxBytes: o.MaxLogBytes, SegmentBytes: min(segmentBytes, o.MaxLogBytes/2)})
	if err != nil {
		return nil, fmt.Errorf("open write buffer log: %w", err)
	}
	o.Config.Incarnation = rand.Uint64()
	var replay []causal.Message
	err = log.Replay(func(_ uint64, payload []byte) error {
		var m causal.Message
		if err := wire.Decode(payload, &m); err != nil {
			return err
		}
		if m.Kind == causal.KindStable && m.Seq == 0 {
			return errors.New("it is of a version in which coordinators could not come and go, and their numbers were others; " +
				"start with empty folders and storages")
		}
		replay = append(replay, m)
		return nil
	})
	if err != nil {
		log.Close()
		return nil, fmt.Errorf("replay write buffer log in %s: %w", o.Dir, err)
	}
	c := &Coordinator{Host: newHost(o.Config.Self, o.Clock, o.Net), log: log, logger: o.Logger, maxLog: o.MaxLogBytes,
		failure: o.Failed, ended: make(chan struct{})}
	c.work.L = &c.mu
	m := causal.NewCoordinator(o.Config, o.Clock(), replay, log.LastIndex()+1)
	c.m = m
	c.collect = func() {
		had := len(c.appends)
		if c.appends = m.Appends(c.appends); len(c.appends) > had {
			c.work.Signal()
		}
	}
	go c.write()
	return c, nil
}

// write appends to the log in groups: everything that was accepted while the last group was being synced is the next one.
func (c *Coordinator) write() {
	defer close(c.ended)
	var group []causal.Message
	var payloads [][]byte
	var buf []byte
	for {
		c.mu.Lock()
		for len(c.appends) == 0 && !c.closing {
			c.work.Wait()
		}
		group, c.appends = c.appends, group[:0]
		c.mu.Unlock()
		if len(group) == 0 {
			return
		}
		payloads, buf = encode(payloads[:0], buf[:0], group)
		for len(payloads) > 0 {
			n := fitting(payloads)
			if err := c.append(payloads[:n]); err != nil {
				c.fail(err)
				return
			}
			payloads = payloads[n:]
		}
		clear(group)
	}
}

// segmentBytes is the size of a log segment, which bounds one append; groupBytes is what is appended at once, beyond one
// record. The greatest value that a client may write fits in.
const (
	segmentBytes = 64 << 20
	groupBytes   = 8 << 20
)

// MinLogBytes is the least bound of a log: the greatest value fits in twice.
const MinLogBytes = 64 << 20

// fitting returns how many of the records are appended at once.
func fitting(payloads [][]byte) int {
	n, size := 0, 0
	for n < len(payloads) && (n == 0 || size+len(payloads[n]) <= groupBytes) {
		size += len(payloads[n])
		n++
	}
	return n
}

// append makes records durable and tells the machine. A full log has room again once the oldest writes are complete; puts
// are refused long before.
func (c *Coordinator) append(payloads [][]byte) error {
	m := c.m.(*causal.Coordinator)
	for {
		c.truncate(m)
		last, err := c.log.Append(payloads)
		if err == nil {
			full := c.log.Bytes() > c.maxLog-c.maxLog/10
			c.do(func(now causal.Now) {
				m.SetLogFull(full)
				m.Appended(now, last)
			})
			return nil
		}
		if !errors.Is(err, wal.ErrFull) {
			return err
		}
		c.do(func(causal.Now) { m.SetLogFull(true) })
		c.mu.Lock()
		closing := c.closing
		c.mu.Unlock()
		if closing {
			return err
		}
		time.Sleep(fullWait)
	}
}

// fullWait is between the tries to append to a full log.
const fullWait = 50 * time.Millisecond

// truncate drops what the machine needs no more.
func (c *Coordinator) truncate(m *causal.Coordinator) {
	c.mu.Lock()
	before := m.TruncateBefore()
	c.mu.Unlock()
	if before <= c.truncated {
		return
	}
	if err := c.log.TruncateBefore(before); err != nil {
		c.logger.Warn("truncating the write buffer log failed; it will be tried again", "error", err)
		return
	}
	c.truncated = before
}

func encode(payloads [][]byte, buf []byte, group []causal.Message) ([][]byte, []byte) {
	ends := make([]int, 0, len(group))
	for i := range group {
		buf = wire.Append(buf, &group[i])
		ends = append(ends, len(buf))
	}
	start := 0
	for _, end := range ends {
		payloads = append(payloads, buf[start:end:end])
		start = end
	}
	return payloads, buf
}

// Refuse lets no further put in, because the coordinator is about to stop: sidecars are told that nothing was written, and go
// to another one. What was accepted before goes on propagating.
func (c *Coordinator) Refuse() { c.do(func(causal.Now) { c.m.(*causal.Coordinator).Refuse() }) }

// Membership says whether it takes part in the writing of its data centre.
func (c *Coordinator) Membership() (is causal.Membership) {
	c.Machine(func(m *causal.Coordinator) { is = m.Membership() })
	return is
}

// Drained reports whether everything that was accepted is in every ring.
func (c *Coordinator) Drained() (drained bool) {
	c.Machine(func(m *causal.Coordinator) { drained = m.Drained() })
	return drained
}

// InUse returns the indices of the coordinators of the data centre that are in use, if this is its first one.
func (c *Coordinator) InUse() (indices []int) {
	c.Machine(func(m *causal.Coordinator) {
		for i, bits := 0, m.InUse(); bits != 0; i, bits = i+1, bits>>1 {
			if bits&1 != 0 {
				indices = append(indices, i)
			}
		}
	})
	return indices
}

// fail stops the coordinator: what the log may have lost must not be acknowledged.
func (c *Coordinator) fail(err error) {
	c.stop()
	if errors.Is(err, wal.ErrClosed) {
		return
	}
	c.logger.Error("the write buffer log failed; this coordinator stops", "error", err)
	if c.failure != nil {
		c.failure(err)
	}
}

// SetTopology takes a topology that differs from the one in use in numbers of coordinators, shards and caches only.
func (c *Coordinator) SetTopology(t *topology.Topology) {
	c.do(func(now causal.Now) { c.m.(*causal.Coordinator).SetTopology(now, t) })
}

// Before returns the rings that are still used as before a change of shards: none of their middlemen has said that it has gone over.
func (c *Coordinator) Before() (rings topology.RingSet) {
	c.Machine(func(m *causal.Coordinator) { rings = m.Before() })
	return rings
}

// Close stops the coordinator after what was accepted is durable.
func (c *Coordinator) Close() error {
	c.mu.Lock()
	c.closing = true
	c.work.Signal()
	c.mu.Unlock()
	<-c.ended
	c.stop()
	return c.log.Close()
}

// Crash stops the coordinator at once, as a kill does: what is not durable is lost.
func (c *Coordinator) Crash() error {
	c.stop()
	c.mu.Lock()
	c.appends, c.closing = nil, true
	c.work.Signal()
	c.mu.Unlock()
	<-c.ended
	return c.log.Close()
}

// LogBytes returns the size of the log on disk.
func (c *Coordinator) LogBytes() int64 { return c.log.Bytes() }

// Machine gives f the machine to look at.
func (c *Coordinator) Machine(f func(*causal.Coordinator)) {
	c.View(func(m any) { f(m.(*causal.Coordinator)) })
}
