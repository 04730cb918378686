package load

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/history"
)

// Reads of a batch are answered one after the other, and each may go to another continent: batches are short, and
// several connections read concurrently.
const (
	finalBatch       = 8
	finalConnections = 16
	finalPause       = 100 * time.Millisecond
)

// finalReader reads at one endpoint, in sessions of its own.
type finalReader struct {
	run   *run
	conns []*connection
	// state is the last reply for each key, by its index in the list of keys.
	state []history.Op
}

// finalReads waits until all writes are complete and then reads every written key at every endpoint, repeatedly where
// the endpoints disagree or are behind, until they agree or the time is up. The last read of each key is recorded; the
// checker judges what is still wrong.
func (r *run) finalReads(ctx context.Context) error {
	final := &Final{Undrained: r.drain(ctx)}
	r.meter.result.Final = final
	keys := slices.Sorted(maps.Keys(r.newest))
	final.Keys = len(keys)
	readers := make([]*finalReader, len(r.targets))
	for i, t := range r.targets {
		readers[i] = newFinalReader(r, t, len(keys))
		defer readers[i].close()
	}
	todo := make([]int, len(keys)) // places in keys
	for i := range todo {
		todo[i] = i
	}
	for deadline := time.Now().Add(r.config.FinalTimeout); len(todo) > 0; {
		final.Rounds++
		r.readRound(ctx, readers, keys, todo)
		final.Disagree, final.Behind = 0, 0
		todo = slices.DeleteFunc(todo, func(i int) bool {
			agree, behind := r.compare(readers, i, keys[i])
			if !agree {
				final.Disagree++
			} else if behind {
				final.Behind++
			}
			return agree && !behind
		})
		if len(todo) > 0 && (time.Now().After(deadline) || !pause(ctx, finalPause)) {
			break
		}
	}
	for _, reader := range readers {
		// Keys were read in different rounds; a process's operations must be in the order of its program.
		slices.SortStableFunc(reader.state, func(a, b history.Op) int { return cmp.Compare(a.Start, b.Start) })
		for i := range reader.state {
			if err := r.record(&reader.state[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// drain asks all sessions concurrently, and returns how many did not confirm that their writes are complete.
func (r *run) drain(ctx context.Context) int {
	workers := r.allWorkers()
	drained := make([]bool, len(workers))
	var wg sync.WaitGroup
	for i, w := range workers {
		wg.Go(func() { drained[i] = w.conn.drain(ctx, drainBound) })
	}
	wg.Wait()
	undrained := 0
	for _, ok := range drained {
		if !ok {
			undrained++
		}
	}
	return undrained
}

func (r *run) readRound(ctx context.Context, readers []*finalReader, keys, todo []int) {
	var wg sync.WaitGroup
	for _, reader := range readers {
		for n, conn := range reader.conns {
			wg.Go(func() {
				i := 0
				for batch := range slices.Chunk(todo, finalBatch) {
					if i++; i%len(reader.conns) == n {
						reader.read(ctx, conn, n, keys, batch)
					}
				}
			})
		}
	}
	wg.Wait()
}

// compare reports whether the endpoints gave the same reply for a key, and whether it is older than an acknowledged
// write.
func (r *run) compare(readers []*finalReader, i, key int) (agree, behind bool) {
	first := &readers[0].state[i]
	for _, reader := range readers {
		s := &reader.state[i]
		if !s.OK || s.Missing != first.Missing || s.Value != first.Value ||
			!s.Version.IsZero() && !first.Version.IsZero() && s.Version != first.Version {
			return false, false
		}
		if s.Missing && s.Version.IsZero() {
			// Tombstones expire (PROTOCOL MM-14), but a key that was never deleted cannot be missing. Keys may also
			// have a TTL.
			behind = behind || r.there[key] && !r.deletable[key] &&
				(r.config.Workload == nil || len(r.config.Workload.TTLs) == 0)
			continue
		}
		behind = behind || !s.Version.IsZero() && s.Version.Less(r.newest[key])
	}
	return true, behind
}

func newFinalReader(r *run, t *target, keys int) *finalReader {
	f := &finalReader{run: r, state: make([]history.Op, keys)}
	for range finalConnections {
		f.conns = append(f.conns, dial(t, &r.config))
	}
	return f
}

func (f *finalReader) close() {
	for _, c := range f.conns {
		c.close()
	}
}

// read reads a batch of keys once. All connections to an endpoint count as one session: final reads come after
// everything else, so they must agree however the sidecar scopes sessions.
func (f *finalReader) read(ctx context.Context, conn *connection, n int, keys, batch []int) {
	name := fmt.Sprintf("final/%s/%d#%d", conn.target.Name, n, conn.generation)
	ask := conn.capturesVersions()
	gets, lasts := make([]*redis.StringCmd, len(batch)), make([]*redis.Cmd, len(batch))
	start := f.run.now()
	good := conn.send(ctx, func(p redis.Pipeliner) {
		for j, i := range batch {
			gets[j] = p.Get(ctx, f.run.keys.name(keys[i]))
			if ask {
				lasts[j] = p.Do(ctx, "CAUSAL", "LAST")
			}
		}
	})
	end := f.run.now()
	for j, i := range batch {
		op := history.Op{Session: "final/" + conn.target.Name, Process: name, DC: conn.target.DataCenter,
			Kind: history.Get, Key: f.run.keys.name(keys[i]),
			Start: start, End: end, Final: true}
		if err := fill(&op, gets[j]); err == nil && ask {
			if l, err := conn.lastOf(lasts[j]); err == nil {
				op.Version = l.version
			}
		}
		f.state[i] = op
	}
	if !good {
		conn.renew()
	}
}
