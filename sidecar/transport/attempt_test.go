package transport

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/causalstore/causalstore/topology"
)

// awaitFailure waits until the only dialed link of a process is down for a reason.
func awaitFailure(t *testing.T, p *testProcess, to topology.Node, want Failure) {
	t.Helper()
	waitFor(t, "the link to be "+want.String(), func() bool {
		p.Send(numbered(coordinatorA, to, 1))
		for _, l := range p.Stats().Links {
			if l.Dialed && !l.Up && l.Failure == want {
				return true
			}
		}
		return false
	})
}

func TestReasonsOfFailedLinksAreToldApart(t *testing.T) {
	eu, us := newAuthority(t, "eu"), newAuthority(t, "us")
	pair := func(t *testing.T, changes ...change) (a *testProcess, ka, kb *keys) {
		d := newDirectory()
		ka, kb = newKeys(t, idOf(coordinatorA), eu), newKeys(t, idOf(middlemanB), eu)
		a = startWith(t, d, coordinatorA, ka, changes...)
		b := startWith(t, d, middlemanB, kb, changes...)
		if len(changes) == 0 {
			awaitServing(t, a, middlemanB)
			a.Send(numbered(coordinatorA, middlemanB, 1))
			b.wait(t, 1)
		}
		return a, ka, kb
	}
	quickly := func(_ *Config, tm *timings) { tm.distrust = 10 * time.Millisecond }
	t.Run("it is not trusted here", func(t *testing.T) {
		a, ka, _ := pair(t, quickly)
		ka.trust(t, eu, us)
		awaitFailure(t, a, middlemanB, FailureNotTrusted)
	})
	t.Run("this one is not trusted there", func(t *testing.T) {
		a, _, kb := pair(t, quickly)
		kb.trust(t, eu, us)
		awaitFailure(t, a, middlemanB, FailureNotTrusted)
	})
	t.Run("its name does not resolve", func(t *testing.T) {
		a, _, _ := pair(t, func(c *Config, _ *timings) {
			c.dialTCP = func(context.Context, string) (net.Conn, error) {
				return nil, &net.DNSError{Err: "no such host", Name: "b", IsNotFound: true}
			}
		})
		awaitFailure(t, a, middlemanB, FailureUnresolved)
	})
	t.Run("nobody listens", func(t *testing.T) {
		d := newDirectory()
		d.set("127.0.0.1:1", middlemanB.WithMember(1))
		awaitFailure(t, startWith(t, d, coordinatorA, newKeys(t, idOf(coordinatorA), eu)), middlemanB,
			FailureUnreachable)
	})
	t.Run("the link is back", func(t *testing.T) {
		a, _, _ := pair(t)
		if l := a.Stats().Links; l[0].Failure != NoFailure {
			t.Errorf("%+v", l)
		}
	})
}
