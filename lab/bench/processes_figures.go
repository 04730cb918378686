package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
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
		if m.part != part {
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
func (p *processes) drain(ctx context.Context) error {
	for _, m := range p.members {
		if m.part != "coordinator" {
			continue
		}
		err := m.program.await(ctx, 5*time.Minute, func() bool {
			n, err := p.metric(ctx, m, "causalstore_coordinator_incomplete_writes")
			return err == nil && n == 0
		})
		if err != nil {
			return err
		}
	}
	return nil
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

// kindStorage is the kind of the Redis servers of a deployment in its CPU times.
const kindStorage = "redis"

// cpu returns the CPU time of the members since their start, by kind.
func (p *processes) cpu() (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	for _, m := range p.members {
		t, err := cpuTime(m.program.pid())
		if err != nil {
			return nil, fmt.Errorf("CPU time of the %s: %w", m.kind, err)
		}
		times[m.kind] += t
		if m.storage == nil {
			continue
		}
		if t, err = cpuTime(m.storage.Pid()); err != nil {
			return nil, fmt.Errorf("CPU time of the storage: %w", err)
		}
		times[kindStorage] += t
	}
	return times, nil
}

// allocations returns what the members have allocated since their start, by kind.
func (p *processes) allocations(ctx context.Context) (map[string]allocations, error) {
	all := map[string]allocations{}
	for _, m := range p.members {
		a, err := readAllocations(ctx, &p.http, "http://"+m.http)
		if err != nil {
			return nil, fmt.Errorf("the %s of %s: %w", m.kind, m.dc, err)
		}
		all[m.kind] = all[m.kind].plus(a)
	}
	return all, nil
}
