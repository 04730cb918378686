package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/causalstore/causalstore/lab/local"
)

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
	p, err := startProgram(nil, dir, "causalstore", binary, args...)
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
func (d *deployment) incomplete(ctx context.Context) (n float64, err error) {
	st, err := d.state(ctx)
	for _, o := range st.Origins {
		n += float64(o.Incomplete)
	}
	return n, err
}

// allocations are what a Go process has allocated since its start.
type allocations struct{ Objects, Bytes, Collections int64 }

func (a allocations) since(b allocations) allocations {
	return allocations{a.Objects - b.Objects, a.Bytes - b.Bytes, a.Collections - b.Collections}
}

func (a allocations) plus(b allocations) allocations {
	return allocations{a.Objects + b.Objects, a.Bytes + b.Bytes, a.Collections + b.Collections}
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
