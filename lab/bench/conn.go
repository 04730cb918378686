package bench

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// conn is a connection over which a benchmark sends commands and takes replies step by step: to write keys before the
// load, to keep caches warm, to follow single writes, to attack. Load comes from a driver.
type conn struct {
	net.Conn
	r *bufio.Reader
	w *bufio.Writer
}

// reply is one reply: its first line and, of a value, the start.
type reply struct{ line, value string }

func (r reply) String() string { return strings.TrimSuffix(r.line+" "+r.value, " ") }

// isValue reports whether the reply has a value.
func (r reply) isValue() bool { return strings.HasPrefix(r.line, "$") && r.line != "$-1" }

func dial(addr string) (*conn, error) {
	socket, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: socket, r: bufio.NewReader(socket), w: bufio.NewWriterSize(socket, 64<<10)}, nil
}

// command adds a command to the output. Flush returns the errors of writing.
func (c *conn) command(args ...string) {
	fmt.Fprintf(c.w, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(c.w, "$%d\r\n", len(a))
		_, _ = c.w.WriteString(a)
		_, _ = c.w.WriteString("\r\n")
	}
}

// send adds the command for a key of records to the output.
func (c *conn) send(command func(dst []byte, i int) []byte, i int) {
	_, _ = c.w.Write(command(c.w.AvailableBuffer(), i))
}

func (c *conn) flush() error { return c.w.Flush() }

// ask sends one command and returns its reply. It fails if there is none for too long.
func (c *conn) ask(args ...string) (reply, error) {
	c.command(args...)
	var last reply
	err := c.exchange(1, func(r reply) { last = r })
	return last, err
}

// exchange sends what is in the output, and takes n replies. It fails if they do not come for too long.
func (c *conn) exchange(n int, take func(reply)) error {
	if err := c.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return err
	}
	return c.take(n, take)
}

// take is exchange with the deadline that the connection has.
func (c *conn) take(n int, take func(reply)) error {
	if err := c.flush(); err != nil {
		return err
	}
	for range n {
		r, err := c.reply()
		if err != nil {
			return err
		}
		take(r)
	}
	return nil
}

// expect sends what is in the output and takes n replies, which must all hold.
func (c *conn) expect(n int, holds func(reply) bool) error {
	wrong, example := 0, reply{}
	err := c.exchange(n, func(r reply) {
		if !holds(r) {
			wrong, example = wrong+1, r
		}
	})
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d of %d replies are wrong, such as %q", wrong, n, example)
	}
	return err
}

// isOK reports whether a write was accepted.
func isOK(r reply) bool { return r.line == "+OK" }

// valueStart is how much of a value a reply has.
const valueStart = 64

// reply reads one reply. Of a list, it is the first line.
func (c *conn) reply() (r reply, err error) {
	line, err := c.r.ReadString('\n')
	r.line = strings.TrimSuffix(line, "\r\n")
	if err != nil || r.line == "" {
		return r, err
	}
	switch n, _ := strconv.Atoi(r.line[1:]); r.line[0] {
	case '$':
		if n < 0 {
			return r, nil
		}
		start := make([]byte, min(n, valueStart))
		if _, err = io.ReadFull(c.r, start); err == nil {
			_, err = c.r.Discard(n - len(start) + 2)
		}
		r.value = string(start)
	case '*':
		for range n {
			if _, err := c.reply(); err != nil {
				return r, err
			}
		}
	}
	return r, err
}
