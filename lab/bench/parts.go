package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// partNames are the parts of a data center, in the order in which they start.
var partNames = []string{"coordinator", "middleman", "cache", "sidecar"}

// parts is a data center with each part in its own process, as in production.
type parts struct {
	redis    string // address of the sidecar for clients
	programs map[string]*program
	metrics  map[string]string // addresses
	http     http.Client
}

// startParts starts the parts, with embedded storage, and returns when all are ready.
func startParts(ctx context.Context, binary, dir string) (*parts, error) {
	p := &parts{programs: map[string]*program{}, metrics: map[string]string{}, http: http.Client{Timeout: 10 * time.Second}}
	if err := p.start(ctx, binary, dir); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *parts) start(ctx context.Context, binary, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	config := contract.Config{
		DataCenter: "here",
		Topology: &topology.File{Epoch: 1, DataCenters: []topology.FileDataCenter{{Name: "here"}},
			Rings: []topology.FileRing{{Name: "ring", DataCenters: []string{"here"}}}},
		Storage:      contract.Storage{Engine: "embedded", Embedded: contract.EmbeddedStorage{Dir: filepath.Join(dir, "storage")}},
		DataDir:      filepath.Join(dir, "log"),
		TokenKeyFile: filepath.Join(dir, "token.key"),
	}
	addrs, err := freePorts(3 + 1 + len(partNames))
	if err != nil {
		return err
	}
	config.Addresses = map[string]contract.Addresses{"here": {Coordinators: addrs[0:1], Middlemen: addrs[1:2], Caches: addrs[2:3]}}
	p.redis, addrs = addrs[3], addrs[4:]
	text, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "causalstore.yaml")
	if err := errors.Join(os.WriteFile(config.TokenKeyFile, []byte(strings.Repeat("k", 32)), 0o600), os.WriteFile(file, text, 0o600)); err != nil {
		return err
	}
	for i, name := range partNames {
		args := []string{name, "--config", file, "--listen-http", addrs[i]}
		if name == "sidecar" {
			args = append(args, "--listen-redis", p.redis)
		}
		if p.programs[name], err = startProgram(dir, name, binary, args...); err != nil {
			return err
		}
		p.metrics[name] = addrs[i]
	}
	for _, name := range partNames {
		err := p.programs[name].await(ctx, time.Minute, func() bool {
			_, err := p.fetch(ctx, name, "/readyz")
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *parts) stop() error {
	var errs []error
	for i := len(partNames) - 1; i >= 0; i-- {
		if one := p.programs[partNames[i]]; one != nil {
			errs = append(errs, one.stop())
		}
	}
	return errors.Join(errs...)
}

func (p *parts) fetch(ctx context.Context, part, path string) ([]byte, error) {
	return fetch(ctx, &p.http, "http://"+p.metrics[part]+path)
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

// metric returns the sum of a metric of a part over its labels.
func (p *parts) metric(ctx context.Context, part, name string) (float64, error) {
	b, err := p.fetch(ctx, part, "/metrics")
	if err != nil {
		return 0, fmt.Errorf("get the metrics of the %s: %w", part, err)
	}
	return sumMetric(b, part, name)
}

// sumMetric returns the sum of a metric over its labels, from the metrics page of a part.
func sumMetric(page []byte, part, name string) (float64, error) {
	sum, found := 0.0, false
	for line := range strings.Lines(string(page)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
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
		return 0, fmt.Errorf("the %s has no metric %s", part, name)
	}
	return sum, nil
}

// drain waits until every accepted write is complete.
func (p *parts) drain(ctx context.Context) error {
	return p.programs["coordinator"].await(ctx, 5*time.Minute, func() bool {
		n, err := p.metric(ctx, "coordinator", "causalstore_coordinator_incomplete_writes")
		return err == nil && n == 0
	})
}

// resident returns the resident memory of every part, in bytes.
func (p *parts) resident() (map[string]int64, error) {
	sizes := map[string]int64{}
	for name, one := range p.programs {
		n, err := residentBytes(one.pid())
		if err != nil {
			return nil, fmt.Errorf("memory of the %s: %w", name, err)
		}
		sizes[name] = n
	}
	return sizes, nil
}

// cpu returns the CPU time of every part since its start.
func (p *parts) cpu() (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	for name, one := range p.programs {
		t, err := cpuTime(one.pid())
		if err != nil {
			return nil, fmt.Errorf("CPU time of the %s: %w", name, err)
		}
		times[name] = t
	}
	return times, nil
}
