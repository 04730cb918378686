package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/causalstore/causalstore/lab/local"
)

// oneDC is the topology of a deployment without distances.
const oneDC = `epoch: 1
dataCenters:
- {name: here}
rings:
- name: ring
  dataCenters: [here]
`

// deployment is a whole deployment in a separate process: `causalstore local`.
type deployment struct {
	*program
	local.Endpoints
	http http.Client
}

// startDeployment runs `binary local` with args in dir and waits until it is ready.
func startDeployment(ctx context.Context, binary, dir string, args ...string) (*deployment, error) {
	ends := filepath.Join(dir, "endpoints.json")
	args = append([]string{"local", "--data-dir", filepath.Join(dir, "data"), "--port", "0", "--admin-port",
		"0", "--pprof",
		"--endpoints-file", ends}, args...)
	p, err := startProgram(dir, "causalstore", binary, args...)
	if err != nil {
		return nil, err
	}
	d := &deployment{program: p, http: http.Client{Timeout: time.Minute}}
	err = p.await(ctx, time.Minute, func() bool {
		b, err := os.ReadFile(ends)
		return err == nil && json.Unmarshal(b, &d.Endpoints) == nil
	})
	if err == nil && len(d.DataCenters) == 0 {
		err = fmt.Errorf("%s lists no data center", ends)
	}
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return d, nil
}

// startOneDC runs a deployment of one data center, without a WAN.
func startOneDC(ctx context.Context, binary, dir string, args ...string) (*deployment, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "topology.yaml")
	if err := os.WriteFile(file, []byte(oneDC), 0o600); err != nil {
		return nil, err
	}
	return startDeployment(ctx, binary, dir, append([]string{"--topology", file, "--wan=false"}, args...)...)
}

// fetch gets a page from the admin address.
func (d *deployment) fetch(ctx context.Context, path string) ([]byte, error) {
	return fetch(ctx, &d.http, "http://"+d.Admin+path)
}

func (d *deployment) state(ctx context.Context) (local.State, error) {
	var st local.State
	b, err := d.fetch(ctx, "/state")
	if err == nil {
		err = json.Unmarshal(b, &st)
	}
	if err != nil {
		return st, fmt.Errorf("get the state of the deployment: %w", err)
	}
	return st, nil
}

// incomplete counts the writes that are not complete in every ring yet.
func incomplete(st local.State) (n int) {
	for _, o := range st.Origins {
		n += o.Incomplete
	}
	return n
}

// drainStallLimit is how long a deployment may complete none of its writes before draining it fails.
const drainStallLimit = 2 * time.Minute

// drain waits until every accepted write is complete. It returns how many were incomplete at first, and how long it
// took.
func (d *deployment) drain(ctx context.Context) (backlog int, took time.Duration, err error) {
	start := time.Now()
	moved, left := start, math.MaxInt
	for first := true; ; first = false {
		st, err := d.state(ctx)
		if err != nil {
			return backlog, 0, err
		}
		n, now := incomplete(st), time.Now()
		if first {
			backlog = n
		}
		switch {
		case n == 0:
			return backlog, now.Sub(start), nil
		case n < left:
			moved, left = now, n
		case now.Sub(moved) > drainStallLimit:
			return backlog, now.Sub(start), fmt.Errorf("%d writes are not complete, and none completed in the last %s",
				n, drainStallLimit)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return backlog, now.Sub(start), ctx.Err()
		}
	}
}

// allocations are what a Go process has allocated since its start.
type allocations struct{ Objects, Bytes, Collections int64 }

func (a allocations) since(b allocations) allocations {
	return allocations{a.Objects - b.Objects, a.Bytes - b.Bytes, a.Collections - b.Collections}
}

func (a allocations) plus(b allocations) allocations {
	return allocations{a.Objects + b.Objects, a.Bytes + b.Bytes, a.Collections + b.Collections}
}

func (d *deployment) allocations(ctx context.Context) (allocations, error) {
	return readAllocations(ctx, &d.http, "http://"+d.Admin)
}

// readAllocations reads runtime.MemStats of a process that serves pprof, from the end of the heap profile in text form.
func readAllocations(ctx context.Context, client *http.Client, base string) (allocations, error) {
	b, err := fetch(ctx, client, base+"/debug/pprof/heap?debug=1")
	if err != nil {
		return allocations{}, fmt.Errorf("get the memory statistics: %w", err)
	}
	var a allocations
	fields := map[string]*int64{"# Mallocs": &a.Objects, "# TotalAlloc": &a.Bytes, "# NumGC": &a.Collections}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		if f := fields[name]; f != nil {
			if *f, err = strconv.ParseInt(value, 10, 64); err != nil {
				return a, fmt.Errorf("memory statistics: %s is %q", name, value)
			}
		}
	}
	if a.Objects == 0 {
		return a, errors.New("the heap profile has no memory statistics")
	}
	return a, nil
}

// profile takes a CPU profile.
func (d *deployment) profile(ctx context.Context, length time.Duration) ([]byte, error) {
	b, err := d.fetch(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(1, int(length.Seconds()))))
	if err != nil {
		return nil, fmt.Errorf("take a CPU profile: %w", err)
	}
	return b, nil
}
