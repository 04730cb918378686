package connlimit

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/credentials"
)

const patience = 30 * time.Second

// tlsServer completes handshakes, and then returns what clients send.
type tlsServer struct {
	t       *testing.T
	addr    string
	counter *Counter
	config  *tls.Config
	failed  chan error
	dropped chan net.Addr
}

func serveTLS(t *testing.T, most int) *tlsServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &tlsServer{t: t, addr: l.Addr().String(), failed: make(chan error, 100), dropped: make(chan net.Addr, 100)}
	s.config = &tls.Config{Certificates: []tls.Certificate{*credentials.Named(t, 1)},
		ClientAuth: tls.RequireAnyClientCert}
	s.counter = NewCounter(most, func(a net.Addr) { s.dropped <- a })
	l = s.counter.CountHandshakes(l)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(c.(*Conn))
		}
	}()
	return s
}

func (s *tlsServer) serve(c *Conn) {
	secure := tls.Server(c, s.config)
	defer secure.Close()
	if err := secure.Handshake(); err != nil {
		s.failed <- err
		return
	}
	if c.Complete() {
		_, _ = io.Copy(secure, secure)
	}
}

func (s *tlsServer) dial(cert *tls.Certificate) (*tls.Conn, error) {
	c, err := tls.Dial("tcp", s.addr, &tls.Config{Certificates: []tls.Certificate{*cert}, InsecureSkipVerify: true})
	if err == nil {
		s.t.Cleanup(func() { c.Close() })
		err = c.SetDeadline(time.Now().Add(patience))
	}
	return c, err
}

// isEmpty waits until nothing is counted or computed.
func (s *tlsServer) isEmpty() {
	s.t.Helper()
	for deadline := time.Now().Add(patience); s.counter.Number() > 0 ||
		len(s.counter.computing) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%d connections are counted, %d computed", s.counter.Number(), len(s.counter.computing))
		}
	}
	s.counter.mu.Lock()
	defer s.counter.mu.Unlock()
	if n := len(s.counter.from); n > 0 {
		s.t.Errorf("%d addresses without a connection are remembered", n)
	}
}

func TestAHandshakeThatIsTooLongFailsBeforeItsCertificatesAreParsed(t *testing.T) {
	s := serveTLS(t, 10)
	for name, names := range map[string]int{"just above the bound": AcceptedBytes / 3,
		"the largest that crypto/tls accepts": 82_000} {
		c, err := s.dial(credentials.Named(t, names))
		if err == nil {
			// with TLS 1.3, the client is done before the server has looked at its certificate
			_, err = c.Read(make([]byte, 1))
		}
		if err == nil {
			t.Errorf("%s: it is accepted", name)
		}
		select {
		case err := <-s.failed:
			if !errors.Is(err, ErrHandshakeBytes) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(patience):
			t.Fatalf("%s: no handshake has failed", name)
		}
	}
	s.isEmpty()
}

func TestAHandshakeWithinTheBoundIsCompleteWhateverFollowsIt(t *testing.T) {
	s := serveTLS(t, 10)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		s.config.MaxVersion = version
		// a client hello, its signature and an end are beside it
		c, err := s.dial(credentials.Named(t, AcceptedBytes/3-1000))
		if err != nil {
			t.Fatal(err)
		}
		sent := bytes.Repeat([]byte("x"), 1<<20) // it is on its way with the end of the handshake
		go func() { _, _ = c.Write(sent) }()
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("version %x: %v", version, err)
		}
		s.isEmpty()
	}
}

func TestTheAddressWithMostHandshakesLosesTheOldest(t *testing.T) {
	const most = 5
	s := serveTLS(t, most)
	other, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var all []net.Conn
	for range most {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all = append(all, c)
	}
	select {
	case a := <-s.dropped:
		if a.String() != all[0].LocalAddr().String() {
			t.Errorf("%v made place, and not %v", a, all[0].LocalAddr())
		}
	case <-time.After(patience):
		t.Fatal("none made place")
	}
	if err := <-s.failed; !errors.Is(err, ErrDisplaced) {
		t.Errorf("its handshake failed with %v", err)
	}
	for range 2 * most { // whoever ends its handshake is served, and takes no place afterwards
		c, err := s.dial(credentials.Named(t, 1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
	}
	_ = other.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := other.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
		t.Error("the only handshake of another address had to make place")
	}
	for _, c := range append(all, other) {
		c.Close()
	}
	s.isEmpty()
}

func TestAServerThatSaysTooMuchIsNotListenedTo(t *testing.T) {
	for name, c := range map[string]struct {
		names  int
		accept bool
	}{"an ordinary chain": {100, true}, "a chain that is too long": {DialedBytes / 3, false}} {
		l, err := tls.Listen("tcp", "127.0.0.1:0",
			&tls.Config{Certificates: []tls.Certificate{*credentials.Named(t, c.names)}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			if c, err := l.Accept(); err == nil {
				_ = c.(*tls.Conn).Handshake() // the client says how it ended
			}
		}()
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		secure, err := Client(t.Context(), client, &tls.Config{InsecureSkipVerify: true})
		switch {
		case c.accept && err != nil:
			t.Errorf("%s: %v", name, err)
		case !c.accept && !errors.Is(err, ErrHandshakeBytes):
			t.Errorf("%s: %v", name, err)
		case c.accept:
			secure.Close()
		}
	}
}

func TestConnectionsThatCountUntilTheyAreClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := NewCounter(2, nil)
	counted := k.Count(l)
	defer counted.Close()
	var accepted []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a, err := counted.Accept()
		if err != nil {
			t.Fatal(err)
		}
		accepted = append(accepted, a)
	}
	if _, err := accepted[0].Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the oldest of three connections: %v", err)
	}
	for i, c := range accepted {
		c.Close()
		if got := k.Number(); got != min(2, len(accepted)-1-i) {
			t.Errorf("%d connections count after %d were closed", got, i+1)
		}
	}
}

// Nobody takes it any more, and its peer should not wait.
func TestAConnectionThatIsSecureWhenItsListenerClosesIsClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	secure := NewCounter(10, nil).Secure(l, &tls.Config{Certificates: []tls.Certificate{*credentials.Named(t, 1)}},
		patience)
	c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := errors.Join(c.SetDeadline(time.Now().Add(patience)), secure.Close()); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the connection is open: %v", err)
	}
}
