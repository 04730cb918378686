package bench

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// wireConn is a connection over which a benchmark exchanges requests and replies step by step: to write keys before the
// load, to keep caches warm, and for the session of a burst. Load comes from a driver.
type wireConn struct {
	net.Conn
	in []byte
}

func dialWire(addr string) (*wireConn, error) {
	conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	return &wireConn{Conn: conn, in: make([]byte, 64<<10)}, nil
}

// exchange sends n requests at once and takes their replies. It returns how many replies were not of the wanted type,
// and the start of what holds the first of those, or of the last reply if there are none.
func (c *wireConn) exchange(batch []byte, n int, want byte) (wrong int, reply string, err error) {
	if err := c.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return 0, "", err
	}
	if _, err := c.Write(batch); err != nil {
		return 0, "", err
	}
	for got := 0; n > 0; {
		read, err := c.Read(c.in[got:])
		if err != nil {
			return wrong, reply, err
		}
		got += read
		replies, bad, used, err := skipReplies(c.in[:got], n, want)
		if err != nil {
			return wrong, reply, err
		}
		if wrong == 0 && replies > 0 {
			reply = string(c.in[:min(used, 120)])
		}
		if replies == 0 && got == len(c.in) {
			return wrong, reply, errors.New("a reply is larger than the buffer")
		}
		wrong += bad
		n, got = n-replies, copy(c.in, c.in[used:got])
	}
	return wrong, reply, nil
}

// request builds a request as clients do.
func request(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}
