package node

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/sidecar/wal"
)

// Coordinator runs a coordinator.Coordinator with a write-buffer log.
type Coordinator struct {
	*host[*coordinator.Coordinator]
	log       *wal.Log
	logger    *slog.Logger
	maxLog    int64
	maxBuffer int64
	onFailure func(error)
	disk      *diskHealth

	wake         sync.Cond // on host.mu: there are records to append, or the coordinator is closing
	appends      []coordinator.LogRecord
	closing      bool
	appenderDone chan struct{}
	logFailed    atomic.Bool

	truncated uint64 // the log is truncated before this record; used by appendLoop only
}

// CoordinatorOptions configures a Coordinator.
type CoordinatorOptions struct {
	Config coordinator.Config
	Clock  Clock
	Net    transport.Network
	// Dir is the directory of the log on the file system FS; nil: vfs.Default.
	Dir string
	FS  vfs.FS
	// MaxLogBytes bounds the log on disk; 0: wal.DefaultMaxBytes. At nine tenths of it, puts are refused.
	MaxLogBytes int64
	Logger      *slog.Logger
	// OnFailure is called once if the log fails. The coordinator then acknowledges nothing more.
	OnFailure func(error)
}

// NewCoordinator opens the log and resumes the writes in it. The caller registers Handle with the network afterwards.
func NewCoordinator(o CoordinatorOptions) (*Coordinator, error) {
	if o.MaxLogBytes == 0 {
		o.MaxLogBytes = wal.DefaultMaxBytes
	}
	if o.MaxLogBytes < MinLogBytes {
		return nil, fmt.Errorf("a write buffer log of at most %d bytes is too small: set at least %d, so that the largest value fits twice", o.MaxLogBytes, MinLogBytes)
	}
	log, err := wal.Open(o.Dir, wal.Options{FS: o.FS, Logger: o.Logger, MaxBytes: o.MaxLogBytes, SegmentBytes: min(segmentBytes, o.MaxLogBytes/2)})
	if err != nil {
		return nil, err
	}
	o.Config.Incarnation = rand.Uint64()
	var replay []coordinator.LogRecord
	err = log.Replay(func(_ uint64, payload []byte) error {
		r, err := coordinator.ParseLogRecord(payload)
		if err == nil {
			replay = append(replay, r)
		}
		return err
	})
	if err != nil {
		_ = log.Close() // nothing was written
		return nil, fmt.Errorf("replay write buffer log in %s: %w", o.Dir, err)
	}
	m := coordinator.New(o.Config, o.Clock(), replay, log.LastIndex()+1)
	c := &Coordinator{host: newHost(o.Config.Self, o.Clock, o.Net, m), log: log, logger: o.Logger, maxLog: o.MaxLogBytes,
		maxBuffer: int64(o.Config.MaxBytes),
		onFailure: o.OnFailure, appenderDone: make(chan struct{}),
		disk: newDiskHealth(o.Logger, "the write buffer log cannot be written; writes are refused until it can")}
	c.wake.L = &c.mu
	c.collectRequests = func() {
		had := len(c.appends)
		if c.appends = m.Appends(c.appends); len(c.appends) > had {
			c.wake.Signal()
		}
	}
	go c.appendLoop()
	return c, nil
}

// RefusePuts makes the coordinator refuse further puts, because it is about to stop. Sidecars learn that nothing was written and
// retry at another coordinator. Writes that were accepted before continue to propagate.
func (c *Coordinator) RefusePuts() {
	c.step(func(_ causal.Now, m *coordinator.Coordinator) { m.RefusePuts() })
}

// Membership returns the coordinator's state in the membership of its data centre.
func (c *Coordinator) Membership() (is coordinator.Membership) {
	c.Inspect(func(m *coordinator.Coordinator) { is = m.Membership() })
	return is
}

// DataLost returns the parts that know of writes which the log does not hold; none unless the log was lost.
func (c *Coordinator) DataLost() (nodes []topology.Node) {
	c.Inspect(func(m *coordinator.Coordinator) { nodes = m.DataLost() })
	return nodes
}

// Unanswered returns the parts that have to answer before the coordinator starts with an empty log.
func (c *Coordinator) Unanswered() (nodes []topology.Node) {
	c.Inspect(func(m *coordinator.Coordinator) { nodes = m.Unanswered() })
	return nodes
}

// IsDrained reports whether all accepted writes are in every ring.
func (c *Coordinator) IsDrained() (drained bool) {
	c.Inspect(func(m *coordinator.Coordinator) { drained = m.IsDrained() })
	return drained
}

// CoordinatorsInUse returns the indices of the coordinators of the data centre that are in use, if this is its first one.
func (c *Coordinator) CoordinatorsInUse() (indices []int) {
	c.Inspect(func(m *coordinator.Coordinator) {
		for i, bits := 0, m.InUse(); bits != 0; i, bits = i+1, bits>>1 {
			if bits&1 != 0 {
				indices = append(indices, i)
			}
		}
	})
	return indices
}

// SetTopology replaces the topology by one that differs only in the numbers of coordinators, shards and caches.
func (c *Coordinator) SetTopology(t *topology.Topology) {
	c.step(func(now causal.Now, m *coordinator.Coordinator) { m.SetTopology(now, t) })
}

// LinkUp tells the machine that a node is reachable again: what was on its way to it may be lost.
func (c *Coordinator) LinkUp(n topology.Node) {
	c.step(func(now causal.Now, m *coordinator.Coordinator) { m.LinkUp(now, n) })
}

// PendingRings returns the rings whose previous slot map the coordinator still uses: none of their middlemen has reported the new
// one.
func (c *Coordinator) PendingRings() (rings topology.RingSet) {
	c.Inspect(func(m *coordinator.Coordinator) { rings = m.PendingRings() })
	return rings
}

// Close stops the coordinator once all accepted writes are durable. answered says that they are, that their replies have been
// passed to the network, and that no later put is accepted.
func (c *Coordinator) Close() (answered bool, err error) {
	c.mu.Lock()
	c.closing = true
	c.wake.Signal()
	c.mu.Unlock()
	<-c.appenderDone
	c.stop()
	c.awaitSent()
	return !c.logFailed.Load(), c.log.Close()
}

// Crash stops the coordinator immediately, as kill -9 does. Writes that are not durable are lost.
func (c *Coordinator) Crash() error {
	c.stop()
	c.mu.Lock()
	c.appends, c.closing = nil, true
	c.wake.Signal()
	c.mu.Unlock()
	<-c.appenderDone
	return c.log.Close()
}

// Limits returns the sizes at which the coordinator refuses puts: of incomplete writes in memory, and of the log on disk
// (nine tenths of its bound, because writes that are already accepted must fit), in bytes.
func (c *Coordinator) Limits() (bufferBytes, logBytes int64) {
	return c.maxBuffer, c.maxLog - c.maxLog/10
}

// LogBytes returns the size of the log on disk.
func (c *Coordinator) LogBytes() int64 { return c.log.Bytes() }
