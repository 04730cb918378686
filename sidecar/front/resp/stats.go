package resp

import (
	"sync"
	"sync/atomic"
	"time"
)

// stats are the counters of INFO.
type stats struct {
	commands, failures     atomic.Int64
	writes                 atomic.Int64 // commands that may write
	hits, misses           atomic.Int64 // of reads
	received, sent         atomic.Int64 // bytes
	protocolErrors, panics atomic.Int64
	blocked                atomic.Int64 // clients that wait for elements

	byCommand []commandStats // by command.index
	peakBytes atomic.Int64   // the most memory that an INFO has seen
	rate      commandRate
}

// commandStats are the counters of a command.
type commandStats struct {
	calls, failed, rejected atomic.Int64
	took                    atomic.Int64 // nanoseconds
}

func (s *stats) init(now time.Time) {
	s.byCommand = make([]commandStats, len(byName))
	s.rate.since = now
}

// commandsDone counts commands of one name that took so long together.
func (s *stats) commandsDone(cmd *command, n, failed int, took time.Duration) {
	c := &s.byCommand[cmd.index]
	c.calls.Add(int64(n))
	c.took.Add(int64(took))
	if failed > 0 {
		c.failed.Add(int64(failed))
	}
}

// connectionCounters are those of a connection. They are added to those of the server once per batch, so that
// connections do not contend for them.
type connectionCounters struct{ commands, failures, writes, hits, misses, received, sent int64 }

// flushCounters adds the counters of the connection to those of the server.
func (c *connection) flushCounters() {
	n, s := &c.counters, &c.server.stats
	for _, f := range [...]struct {
		from *int64
		to   *atomic.Int64
	}{{&n.commands, &s.commands}, {&n.failures, &s.failures}, {&n.writes, &s.writes}, {&n.hits, &s.hits},
		{&n.misses, &s.misses}, {&n.received, &s.received}, {&n.sent, &s.sent}} {
		if *f.from != 0 {
			f.to.Add(*f.from)
			*f.from = 0
		}
	}
}

// countRead counts a read of a key that exists, or does not.
func (c *connection) countRead(exists bool) {
	if exists {
		c.counters.hits++
	} else {
		c.counters.misses++
	}
}

// noteRejected counts a command that was not executed.
func (c *connection) noteRejected(args [][]byte) {
	if len(args) == 0 {
		return
	}
	if cmd, err := find(args); err == nil {
		c.server.stats.byCommand[cmd.index].rejected.Add(1)
	}
}

// commandRate is how many commands there are in a second.
type commandRate struct {
	mu       sync.Mutex
	since    time.Time // of the measurement in progress
	commands int64     // by then
	last     int64     // what the one before has found
}

// now returns the rate since the call before, or since that before it if that was less than a second ago.
func (r *commandRate) now(at time.Time, commands int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if passed := at.Sub(r.since); passed >= time.Second {
		r.last = int64(float64(commands-r.commands) / passed.Seconds())
		r.since, r.commands = at, commands
	}
	return r.last
}
