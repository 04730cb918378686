package front

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/causalstore/causalstore/contract"
)

// Guessing a password is made slow in two ways. A connection waits longer for the reply to each wrong password, and is
// closed after MaxAuthFailures. And all connections from one address together have authBurst wrong guesses, and
// authPerSecond more each second: beyond that, an attempt waits for its turn before the password is looked at, whether
// it is right or wrong, so that opening many connections gains nothing. The right password costs none of it.
const (
	// MaxAuthFailures is how many wrong passwords end a connection.
	MaxAuthFailures = 5

	firstAuthDelay = 100 * time.Millisecond // doubles with each failure of the connection
	authBurst      = 20
	authPerSecond  = 10
	// between two looks at all addresses: what one wrong password takes to be forgotten
	authSweep        = time.Second / authPerSecond
	maxAuthWait      = 5 * time.Second // an attempt that would wait longer for its turn is refused
	maxAuthAddresses = 4096            // that are remembered
)

// Errors of Client.Authenticate.
var (
	ErrWrongPassword  = errors.New("a wrong password, or the name of no user")
	ErrTooManyGuesses = fmt.Errorf("too many wrong passwords from this address; wait %s and try again", maxAuthWait)
)

// authGuard bounds the wrong passwords from each address.
type authGuard struct {
	mu        sync.Mutex
	addresses map[netip.Prefix]*authBudget
	swept     time.Time // when all addresses were looked at
}

// authBudget is the number of wrong passwords that an address may send now. It is below 0 while attempts wait for their
// turn.
type authBudget struct {
	left float64
	at   time.Time // when left was right
}

func (b *authBudget) refill(now time.Time) {
	if elapsed := now.Sub(b.at).Seconds(); elapsed > 0 {
		b.left, b.at = min(b.left+elapsed*authPerSecond, authBurst), now
	}
}

// attempt decides about one attempt. If the address may try at once, it calls check and returns its result. Otherwise
// it returns how long to wait before the attempt, which is paid for, or false if that is too long.
func (g *authGuard) attempt(address netip.Prefix, now time.Time, check func() bool) (matches bool,
	wait time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.addresses[address]
	if b == nil {
		b = &authBudget{left: authBurst, at: now}
	}
	b.refill(now)
	if b.left >= 1 {
		if check() {
			return true, 0, true
		}
		b.left--
		g.remember(address, b, now)
		return false, 0, true
	}
	wait = time.Duration((1 - b.left) / authPerSecond * float64(time.Second))
	if wait > maxAuthWait {
		return false, 0, false
	}
	b.left--
	return false, wait, true
}

// remember keeps the budget of an address. Over the bound it forgets those that have their whole budget again, once per
// authSweep, or any one.
func (g *authGuard) remember(address netip.Prefix, b *authBudget, now time.Time) {
	if g.addresses[address] == nil && len(g.addresses) >= maxAuthAddresses {
		if now.Sub(g.swept) >= authSweep {
			g.swept = now
			for other, o := range g.addresses {
				if o.refill(now); o.left >= authBurst {
					delete(g.addresses, other)
				}
			}
		}
		for other := range g.addresses {
			if len(g.addresses) < maxAuthAddresses {
				break
			}
			delete(g.addresses, other)
		}
	}
	g.addresses[address] = b
}

// addressOf returns the address of a client: for IPv6 its /64, which is one subscriber's; the zero Prefix for a socket
// without addresses.
func addressOf(remote net.Addr) netip.Prefix {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := 32
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.Prefix(bits) // the zero Prefix for an invalid address
	return prefix
}

// Authenticate makes the client the user of a name if the password is right, and returns ErrWrongPassword or
// ErrTooManyGuesses otherwise. It makes a client that guesses wait, after it has called flush, which sends the answers
// so far. After MaxAuthFailures, end tells the front to close the connection.
func (c *Client) Authenticate(name, password []byte, flush func()) (end bool, err error) {
	s := c.server
	users := s.Users()
	var found *contract.User
	check := func() bool {
		found = users.match(name, password)
		return found != nil
	}
	pause := func(d time.Duration) {
		flush()
		select {
		case <-time.After(d):
		case <-s.context.Done(): // the server aborts its connections
		}
	}
	matches, wait, ok := s.authGuard.attempt(addressOf(c.Socket.RemoteAddr()), time.Now(), check)
	if !ok {
		return true, ErrTooManyGuesses
	}
	if wait > 0 {
		pause(wait)
		matches = check()
	}
	if matches && c.login(found) {
		c.authFailures = 0
		return false, nil
	}
	c.authFailures++
	if n, ok := s.authLog.Next(time.Now()); ok {
		known := users.byName[string(name)] != nil // what it sent for a name may be a password
		s.options.Logger.Warn("a client sent a wrong password, or the name of no user", "client", c.Socket.RemoteAddr(),
			"userExists", known,
			"unloggedBefore", n)
	}
	pause(firstAuthDelay << (c.authFailures - 1))
	return c.authFailures >= MaxAuthFailures, ErrWrongPassword
}
