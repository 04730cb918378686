package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"

	"github.com/causalstore/causalstore/lab/ports"
)

// stockRedis is a plain Redis server on a TCP port, with the same settings as the storage of a deployment.
type stockRedis struct {
	*program
	addr string
}

// startRedis starts a Redis that syncs its append-only file before it acknowledges a write.
func startRedis(ctx context.Context, dir string) (*stockRedis, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w; install it (Debian: apt-get install redis-server, macOS: brew install redis)", err)
	}
	addrs, err := ports.Free(1)
	if err != nil {
		return nil, err
	}
	addr := addrs[0]
	_, port, _ := net.SplitHostPort(addr)
	p, err := startProgram(dir, "redis", binary, "--bind", "127.0.0.1", "--port", port, "--dir", dir,
		"--appendonly", "yes",
		"--appendfsync", "always", "--no-appendfsync-on-rewrite", "no", "--save", "", "--maxmemory", "0",
		"--daemonize", "no")
	if err != nil {
		return nil, err
	}
	r := &stockRedis{program: p, addr: addr}
	if err := p.await(ctx, 20*time.Second, r.pong); err != nil {
		_ = p.stop() // the first error says more
		return nil, err
	}
	return r, nil
}

func (r *stockRedis) pong() bool {
	c, err := net.DialTimeout("tcp", r.addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	if c.SetDeadline(time.Now().Add(time.Second)) != nil {
		return false
	}
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return err == nil && strings.HasPrefix(line, "+PONG")
}
