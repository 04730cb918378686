package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal/session"
)

func (p *processes) fetch(ctx context.Context, m *member, path string) ([]byte, error) {
	return fetch(ctx, &p.http, "http://"+m.http+path)
}

// fetch gets a page.
func fetch(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.200s", url, resp.Status, b)
	}
	return b, err
}

// metric returns the sum of a metric of a member over those of its labels that are not given, as in name="value".
func (p *processes) metric(ctx context.Context, m *member, name string, labels ...string) (float64, error) {
	b, err := p.fetch(ctx, m, "/metrics")
	if err != nil {
		return 0, fmt.Errorf("get the metrics of the %s of %s: %w", m.kind, m.dc, err)
	}
	return sumMetric(b, m.kind, name, labels...)
}

// partMetric returns the sum of a metric over all members that run a part.
func (p *processes) partMetric(ctx context.Context, part, name string, labels ...string) (sum float64, err error) {
	for _, m := range p.members {
		if !m.runs(part) {
			continue
		}
		v, err := p.metric(ctx, m, name, labels...)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
}

// readSources are the sources of reads in a deployment of one data center.
var readSources = []session.Source{session.SourceOwn, session.SourceNear, session.SourceHome,
	session.SourceCache, session.SourceLocal}

// readFrom returns how many keys were read from each source so far; none of Redis itself.
func (p *processes) readFrom(ctx context.Context) (map[string]float64, error) {
	counts := map[string]float64{}
	for _, m := range p.members {
		if !m.runs("sidecar") {
			continue
		}
		page, err := p.fetch(ctx, m, "/metrics")
		if err != nil {
			return nil, fmt.Errorf("get the metrics of the %s of %s: %w", m.kind, m.dc, err)
		}
		for _, source := range readSources {
			n, err := sumMetric(page, m.kind, "causalstore_sidecar_reads_total", fmt.Sprintf("source=%q", source))
			if err != nil {
				return nil, err
			}
			counts[source.String()] += n
		}
	}
	return counts, nil
}

// sumMetric returns the sum of a metric over those of its labels that are not given, from the metrics page of a part.
func sumMetric(page []byte, part, name string, labels ...string) (float64, error) {
	sum, found := 0.0, false
	for line := range strings.Lines(string(page)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' || slices.ContainsFunc(labels, func(label string) bool {
			return !strings.Contains(rest, label)
		}) {
			continue
		}
		fields := strings.Fields(rest)
		v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return 0, fmt.Errorf("parse metric %s of the %s: %w", name, part, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		return 0, fmt.Errorf("the %s has no metric %s{%s}", part, name, strings.Join(labels, ","))
	}
	return sum, nil
}

// drain waits until every accepted write is complete.
func (p *processes) drain(ctx context.Context) (drained, error) {
	d, err := drain(ctx, func() (float64, error) {
		return p.partMetric(ctx, "coordinator", "causalstore_coordinator_incomplete_writes")
	})
	if err != nil {
		err = errors.Join(err, p.ended())
	}
	return d, err
}

// ended returns an error for each process that has ended, with the end of its output.
func (p *processes) ended() error {
	var errs []error
	for _, m := range p.members {
		select {
		case <-m.program.done:
			errs = append(errs, m.program.hasEnded())
		default:
		}
	}
	return errors.Join(errs...)
}

// drained is how many writes were incomplete, and how long they took to complete.
type drained struct {
	backlog float64
	took    time.Duration
}

// drainStallLimit is how long a system may complete none of its writes before draining it fails.
const drainStallLimit = 2 * time.Minute

// drain waits until no write is left that is incomplete.
func drain(ctx context.Context, left func() (float64, error)) (d drained, err error) {
	start := time.Now()
	moved, least := start, math.Inf(1)
	for first := true; ; first = false {
		n, err := left()
		if err != nil {
			return d, err
		}
		now := time.Now()
		if d.took = now.Sub(start); first {
			d.backlog = n
		}
		switch {
		case n == 0:
			return d, nil
		case n < least:
			moved, least = now, n
		case now.Sub(moved) > drainStallLimit:
			return d, fmt.Errorf("%.0f writes are not complete, and none completed in the last %s", n, drainStallLimit)
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return d, err
		}
	}
}

// resident returns the resident memory of the members by kind, in bytes.
func (p *processes) resident() (map[string]int64, error) {
	sizes := map[string]int64{}
	for _, m := range p.members {
		n, err := residentBytes(m.program.pid())
		if err != nil {
			return nil, fmt.Errorf("memory of the %s: %w", m.kind, err)
		}
		sizes[m.kind] += n
	}
	return sizes, nil
}

// cpu returns the CPU time of the members since their start, by kind.
func (p *processes) cpu() (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	for _, m := range p.members {
		t, err := cpuTime(m.program.pid())
		if err != nil {
			return nil, fmt.Errorf("CPU time of the %s: %w", m.kind, err)
		}
		times[m.kind] += t
		for _, pid := range m.storagePids() {
			if t, err = cpuTime(pid); err != nil {
				return nil, fmt.Errorf("CPU time of the storage: %w", err)
			}
			times[kindStorage] += t
		}
	}
	return times, nil
}

// allocations returns what the members have allocated since their start, by kind.
func (p *processes) allocations(ctx context.Context) (map[string]allocations, error) {
	all := map[string]allocations{}
	for _, m := range p.members {
		if m.http == "" {
			continue
		}
		a, err := readAllocations(ctx, &p.http, "http://"+m.http)
		if err != nil {
			return nil, fmt.Errorf("the %s of %s: %w", m.kind, m.dc, err)
		}
		all[m.kind] = all[m.kind].plus(a)
	}
	return all, nil
}

// profiles takes a CPU profile of the first member of each kind that has a page, all at the same time.
func (p *processes) profiles(ctx context.Context, length time.Duration) (map[string][]byte, error) {
	first := map[string]*member{}
	for _, m := range slices.Backward(p.members) {
		if m.http != "" {
			first[m.kind] = m
		}
	}
	taken := slices.Sorted(maps.Keys(first))
	raw := make([][]byte, len(taken))
	err := forEachConcurrently(len(taken), func(i int) (err error) {
		raw[i], err = fetch(ctx, http.DefaultClient, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d",
			first[taken[i]].http, max(1, int(length.Seconds()))))
		if err != nil {
			err = fmt.Errorf("take a CPU profile of the %s: %w", taken[i], err)
		}
		return err
	})
	profiles := map[string][]byte{}
	for i, kind := range taken {
		profiles[kind] = raw[i]
	}
	return profiles, err
}
