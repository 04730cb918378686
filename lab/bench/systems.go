package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/causalstore/causalstore/lab/ports"
)

// withDataDir calls f with a directory for the data of one measurement, and removes it afterwards.
func (s *Setup) withDataDir(f func(dir string) error) error {
	parent, err := filepath.Abs(s.Dir)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(parent, "causalstore-bench-")
	if err != nil {
		return fmt.Errorf("create a directory for the data: %w", err)
	}
	return errors.Join(f(dir), os.RemoveAll(dir))
}

// startRedis starts a stock Redis with the same settings as the storage of a deployment: it syncs its append-only file
// before it acknowledges a write.
func startRedis(ctx context.Context, _, dir string) (*processes, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w; install it (Debian: apt-get install redis-server, macOS: brew install redis)", err)
	}
	addrs, err := ports.Free(1)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addrs[0])
	p, err := startProgram(nil, dir, "redis", binary, "--bind", "127.0.0.1", "--port", port, "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "no", "--save", "",
		"--maxmemory", "0", "--daemonize", "no")
	if err != nil {
		return nil, err
	}
	err = p.await(ctx, 20*time.Second, func() bool {
		c, err := dial(addrs[0])
		if err != nil {
			return false
		}
		defer c.Close()
		answer, err := c.ask("PING")
		return err == nil && answer.line == "+PONG"
	})
	if err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return &processes{members: []*member{{kind: kindStorage, dc: hereDC, redis: addrs[0], program: p}}}, nil
}

// startLocal starts a deployment of one data center in one process, with a stock Redis as its storage and without a
// WAN.
func startLocal(ctx context.Context, binary, dir string) (*processes, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, one := filepath.Join(dir, "topology.json"), oneDataCenter()
	if err := writeTopology(file, &one); err != nil {
		return nil, err
	}
	d, err := startDeployment(ctx, binary, dir, "--topology", file, "--wan=false", "--storage", "redis",
		"--session-scope", "pod")
	if err != nil {
		return nil, err
	}
	return &processes{http: http.Client{Timeout: time.Minute}, members: []*member{{kind: kindLocal, dc: hereDC,
		http: d.Admin, redis: d.DataCenters[0].RESP, program: d.program, children: childrenOf(d.pid())}}}, nil
}
