package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// profile takes a CPU profile of each process of a system under the load of a case, and keeps the profiles in a
// directory, as <command>-<pipeline>-<process>.pprof. Nothing is measured meanwhile.
func (c *ProcessCase) profile(ctx context.Context, t *processTarget, w *Way, length time.Duration, dir string) error {
	load := c.load
	load.duration = length + 100*time.Millisecond
	failed := make(chan error, 1)
	go func() {
		_, err := t.driver.burst(ctx, load)
		failed <- err
	}()
	profiles, err := t.plane.profiles(ctx, length)
	if err = errors.Join(err, <-failed); err != nil {
		return err
	}
	for i, p := range w.Costs {
		raw := profiles[p.Process]
		if raw == nil { // it is not a program in Go
			continue
		}
		stacks, err := keepProfile(raw, dir, fmt.Sprintf("%s-%d-%s", c.Command, c.Pipeline, p.Process))
		if err != nil {
			return err
		}
		w.Costs[i].Layers, _, _ = shares(stacks, 0)
	}
	return t.drain(ctx)
}

// profiles takes a CPU profile of the first member of each kind, all at the same time.
func (p *processes) profiles(ctx context.Context, length time.Duration) (map[string][]byte, error) {
	first := map[string]*member{}
	for _, m := range slices.Backward(p.members) {
		first[m.kind] = m
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	profiles := map[string][]byte{}
	for kind, m := range first {
		all.Go(func() {
			raw, err := fetch(ctx, http.DefaultClient,
				fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", m.http, max(1, int(length.Seconds()))))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("take a CPU profile of the %s: %w", kind, err))
			}
			profiles[kind] = raw
		})
	}
	all.Wait()
	return profiles, errors.Join(errs...)
}
