package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/causalstore/causalstore/lab/relay"
)

// measure runs one round.
func (p *pair) measure(ctx context.Context, ceiling float64) error {
	f := p.result
	gets := burst{workload: workload{records: prefixed("get:", p.o.Keys, p.o.ValueBytes), reads: 1, pipeline: 1},
		duration: p.o.Length}
	if err := p.load(ctx, f.Get, gets); err != nil {
		return fmt.Errorf("GET: %w", err)
	}
	sets := burst{workload: workload{records: prefixed("set:", p.o.Keys, p.o.ValueBytes), pipeline: 1},
		duration: p.o.Length}
	if err := p.load(ctx, f.Set, sets); err != nil {
		return fmt.Errorf("SET: %w", err)
	}
	if err := p.propagate(ctx); err != nil {
		return fmt.Errorf("follow writes to the other region: %w", err)
	}
	if p.o.BacklogBytes == 0 {
		return nil
	}
	return p.backlog(ctx, ceiling)
}

// load loads the first region. What writes cost after their acknowledgement counts too.
func (p *pair) load(ctx context.Context, l *RegionLoad, b burst) error {
	warm := b
	warm.duration = 0 // every key, so that all rounds start with full caches and valid leases
	warm.pipeline = 16
	if err := failOnWrongReplies(p.driver.burst(ctx, warm)); err != nil {
		return err
	}
	if _, err := p.parts.drain(ctx); err != nil {
		return err
	}
	sent, back := p.path.Bytes(relay.Forth), p.path.Bytes(relay.Back)
	err := l.measure(ctx, p.parts, nil, func() (burstResult, error) {
		r, err := p.driver.burst(ctx, b)
		return r, failOnWrongReplies(r, err)
	})
	l.sent, l.back = l.sent+p.path.Bytes(relay.Forth)-sent, l.back+p.path.Bytes(relay.Back)-back
	return err
}

// probeInterval is the time between two writes that are followed to the other region.
const probeInterval = 10 * time.Millisecond

// propagate writes growing numbers to a key in the first region, and notes when a client of the other one sees each of
// them.
func (p *pair) propagate(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.probes++
	key := fmt.Sprintf("probe:%d", p.probes)
	writer, err := dial(p.parts.sidecar(pairDCs[0]))
	if err != nil {
		return err
	}
	defer writer.Close()
	reader, err := dial(p.parts.sidecar(pairDCs[1]))
	if err != nil {
		return err
	}
	defer reader.Close()
	sent := make([]time.Time, p.o.Probes)
	var mu sync.Mutex
	written := make(chan error, 1)
	go func() {
		written <- func() error {
			for i := range sent {
				mu.Lock()
				sent[i] = time.Now()
				mu.Unlock()
				if answer, err := writer.ask("SET", key, strconv.Itoa(i)); err != nil || !isOK(answer) {
					return fmt.Errorf("write: %q, %w", answer, err)
				}
				if err := sleep(ctx, probeInterval); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	deadline := time.Now().Add(time.Minute)
	for seen := 0; seen < len(sent); {
		answer, err := reader.ask("GET", key)
		now := time.Now()
		if err != nil || now.After(deadline) {
			cancel()
			return errors.Join(fmt.Errorf("read: %d of %d writes were seen, and then %q", seen, len(sent), answer),
				err, <-written)
		}
		for newest := numberIn(answer); seen <= newest; seen++ {
			mu.Lock()
			took := now.Sub(sent[seen]) - p.delay
			mu.Unlock()
			_ = p.result.propagation.RecordValue(inRange(p.result.propagation, max(took, 0)))
		}
		if err := sleep(ctx, 200*time.Microsecond); err != nil {
			return err
		}
	}
	return <-written
}

// numberIn returns the number in the reply to GET; -1 if there is none.
func numberIn(r reply) int {
	n, err := strconv.Atoi(r.value)
	if err != nil {
		return -1
	}
	return n
}

// measureCeiling returns how many bytes per second one TCP connection carries over the path.
func measureCeiling(ctx context.Context, o *RegionsOptions, delay time.Duration) (rate float64, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	path := relay.NewPath(delay, o.Window, 0)
	defer func() { err = errors.Join(err, path.Close()) }()
	addr, err := path.Listen(relay.Forth, l.Addr().String())
	if err != nil {
		return 0, err
	}
	// Long enough that the time to connect and the first delay do not count for much.
	size := max(8*o.Window, min(o.BacklogBytes, 64<<20))
	go func() {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return // nothing is accepted then
		}
		defer c.Close()
		block := make([]byte, 64<<10)
		for left := size; left > 0; left -= len(block) {
			if _, err := c.Write(block); err != nil {
				return // the reader notices
			}
		}
	}()
	c, err := l.Accept()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	block := make([]byte, 256<<10)
	first, err := c.Read(block)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, c, block)
	if err == nil && int(n)+first < size {
		err = fmt.Errorf("measure what one connection carries: only %d of %d bytes have arrived", n, size)
	}
	return float64(n) / max(time.Since(start).Seconds(), 1e-9), err
}
