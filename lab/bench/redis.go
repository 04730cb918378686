package bench

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
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
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	p, err := startProgram(dir, "redis", binary, "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--appendonly", "yes",
		"--appendfsync", "always", "--no-appendfsync-on-rewrite", "no", "--save", "", "--maxmemory", "0", "--daemonize", "no")
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

// Ports for the programs of benchmarks are below the range of ports for outgoing connections, which could take one before it is listened on, and
// above those of the tests of processes.
const firstPort, ports = 22500, 7500

// lastPort is the one that freePort has returned last, from firstPort on. Each is another one, since programs listen on theirs only later.
var lastPort atomic.Uint32

func init() { lastPort.Store(rand.Uint32N(ports)) } // so that two processes hardly ever try the same

// freePort returns an address that nobody listens on. Redis cannot choose a port itself.
func freePort() (string, error) {
	for range ports {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+lastPort.Add(1)%ports))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("found no free port between %d and %d on 127.0.0.1", firstPort, firstPort+ports-1)
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
