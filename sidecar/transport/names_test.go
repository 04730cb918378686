package transport

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/capture"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// nameServers answers look-ups as a test says.
type nameServers struct {
	mu     sync.Mutex
	addrs  map[string][]string
	err    error
	silent bool
	given  map[string]int // how often
}

func (s *nameServers) set(host string, addrs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addrs[host] = addrs
}

func (s *nameServers) fail(silent bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent, s.err = silent, err
}

func (s *nameServers) lookUp(ctx context.Context, host string) ([]string, error) {
	s.mu.Lock()
	addrs, err, silent := s.addrs[host], s.err, s.silent
	if !silent && err == nil {
		s.given[host]++
	}
	s.mu.Unlock()
	switch {
	case silent:
		<-ctx.Done()
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case addrs == nil:
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return addrs, nil
}

// answers returns how often they have given the addresses of a host.
func (s *nameServers) answers(host string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given[host]
}

func newNameServers() *nameServers {
	return &nameServers{addrs: map[string][]string{}, given: map[string]int{}}
}

func (s *nameServers) cache(t *testing.T, tolerance time.Duration) (*nameCache, *capture.Buffer) {
	log := &capture.Buffer{}
	c := newNameCache(s.lookUp, tolerance, slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(c.close)
	return c, log
}

func TestAddressesOfANameAreRememberedWhileNameServersAreAway(t *testing.T) {
	refused := errors.New("server misbehaving")
	for _, away := range []struct {
		name   string
		silent bool
		err    error
	}{{"silent", true, nil}, {"failing", false, refused}} {
		t.Run(away.name, func(t *testing.T) {
			s := newNameServers()
			s.set("b.example", "192.0.2.1")
			c, log := s.cache(t, time.Millisecond)
			resolve := func(host string) []string {
				addrs, err := c.resolve(t.Context(), host)
				if err != nil {
					t.Fatalf("%s: %v", host, err)
				}
				return addrs
			}
			for c.tolerance = patience; s.answers("b.example") < 2; { // not remembered: asked each time
				same(t, "answer", resolve("b.example"), []string{"192.0.2.1"})
			}
			c.tolerance = time.Millisecond
			s.fail(away.silent, away.err)
			for range 3 {
				same(t, "remembered", resolve("b.example"), []string{"192.0.2.1"})
			}
			if n := strings.Count(log.String(), "the name servers do not answer"); n != 1 {
				t.Errorf("logged %d times, want 1:\n%s", n, log)
			}
			same(t, "an IP address", resolve("192.0.2.7"), []string{"192.0.2.7"})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			if addrs, err := c.resolve(ctx, "unknown.example"); err == nil {
				t.Errorf("unknown.example has %v, though no name server has answered", addrs)
			}
		})
	}
}

func TestANameThatDoesNotExistAnyMoreIsNotRemembered(t *testing.T) {
	s := newNameServers()
	s.set("b.example", "192.0.2.1")
	c, _ := s.cache(t, patience)
	if _, err := c.resolve(t.Context(), "b.example"); err != nil {
		t.Fatal(err)
	}
	s.set("b.example")
	if addrs, err := c.resolve(t.Context(), "b.example"); err == nil {
		t.Errorf("b.example has %v, want an error", addrs)
	}
	s.set("b.example", "192.0.2.2")
	addrs, err := c.resolve(t.Context(), "b.example")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "after a restart", addrs, []string{"192.0.2.2"})
}

func TestALateAnswerOfANameServerIsForTheNextAttempt(t *testing.T) {
	answer := make(chan []string)
	c := newNameCache(func(ctx context.Context, _ string) ([]string, error) {
		select {
		case addrs := <-answer:
			return addrs, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, time.Millisecond, slog.New(slog.DiscardHandler))
	t.Cleanup(c.close)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.resolve(ctx, "b.example"); !errors.Is(err, context.Canceled) {
		t.Fatalf("the attempt that has ended: %v", err)
	}
	answer <- []string{"192.0.2.1"}
	waitFor(t, "the answer to be remembered", func() bool {
		_, known := c.start("b.example")
		return known != nil
	})
	addrs, err := c.resolve(t.Context(), "b.example")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the next attempt", addrs, []string{"192.0.2.1"})
}

func TestAPartThatWasNotNeededBeforeIsReachedWithoutNameServers(t *testing.T) {
	s, d := newNameServers(), newDirectory()
	b := start(t, d, []topology.Node{middlemanB}, authorized(t))
	s.set("b.example", "127.0.0.1")
	d.set("b.example:"+portOf(t, b.addr), middlemanB, middlemanB.WithMember(1))
	a := start(t, d, []topology.Node{sidecarA}, authorized(t), func(c *Config, tm *timings) {
		c.lookupHost, tm.lookup, tm.namesPause = s.lookUp, time.Millisecond, time.Millisecond
	})
	waitFor(t, "the name to be looked up in advance", func() bool { return s.answers("b.example") > 0 })
	s.fail(true, nil)
	m := causal.Get{ID: 1, Key: "k"}
	waitFor(t, "the part to be reached", func() bool {
		a.Send(m.Message(sidecarA, middlemanB))
		return len(b.all()) > 0
	})
}
