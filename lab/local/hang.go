package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/transport"
)

// maxHeldBatches bounds the batches of messages that wait for a part that hangs; the oldest are lost.
const maxHeldBatches = 1 << 14

// hang makes a part handle nothing, as a process that was sent SIGSTOP does: neither messages, which wait, nor timers.
type hang struct {
	mu     sync.Mutex
	paused bool
	held   [][]causal.Message
}

// wrap returns a handler that lets messages wait while the part hangs.
func (h *hang) wrap(handle transport.Handler) transport.Handler {
	return func(batch []causal.Message) {
		h.mu.Lock()
		if !h.paused {
			h.mu.Unlock()
			handle(batch)
			return
		}
		defer h.mu.Unlock()
		if len(h.held) == maxHeldBatches {
			h.held = h.held[1:]
		}
		h.held = append(h.held, slices.Clone(batch)) // the caller uses the batch again
	}
}

// set starts or ends the hang. It returns what has waited.
func (h *hang) set(paused bool) (held [][]causal.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paused = paused
	if !paused {
		held, h.held = h.held, nil
	}
	return held
}

func (h *hang) isPaused() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.paused
}

// host returns the host of a part that is up, or nil.
func (p *part) host() node.Host {
	switch {
	case p.coordinator != nil:
		return p.coordinator
	case p.shard != nil:
		return p.shard
	case p.cache != nil:
		return p.cache
	}
	return nil
}

// pause makes parts hang.
func (d *Deployment) pause(f Fault) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	parts, err := d.selected(f)
	for _, p := range parts {
		if h := p.host(); h != nil {
			p.hang.set(true)
			d.ticker.Remove(h)
		}
	}
	return err
}

// resumeParts ends the hang of parts.
func (d *Deployment) resumeParts(f Fault) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	parts, err := d.selected(f)
	for _, p := range parts {
		d.resume(p)
	}
	return err
}

func (d *Deployment) resume(p *part) {
	held := p.hang.set(false)
	if h := p.host(); h != nil {
		d.ticker.Remove(h)
		d.ticker.Add(h)
		for _, batch := range held {
			h.Handle(batch)
		}
	}
}

// wipe empties the folders of parts, which must be down. Caches have none.
func (d *Deployment) wipe(ctx context.Context, f Fault) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	parts, err := d.selected(f)
	for _, p := range parts {
		if p.up() {
			return fmt.Errorf("%s %d of %s is up; crash it before its folder is emptied", p.id.Part, p.id.Index, f.DC)
		}
	}
	for _, p := range parts {
		if p.store != nil { // a crash leaves it open
			err = errors.Join(err, p.store.Close())
			p.store = nil
		}
		if p.server != nil {
			err = errors.Join(err, p.server.Stop(ctx))
			p.server = nil
		}
		err = errors.Join(err, os.RemoveAll(d.dir(p.id)), os.RemoveAll(d.shardLog(p.id)))
	}
	return err
}
