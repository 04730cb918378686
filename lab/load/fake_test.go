package load

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// fakeStore is what the fake servers of one test share: a store that is linearizable, so also causal.
type fakeStore struct {
	mu     sync.Mutex
	values map[string]fakeValue
	clock  int
}

type fakeValue struct {
	value   string
	version string
	deleted bool
}

// fakeServer speaks as much RESP as the load needs.
type fakeServer struct {
	store *fakeStore
	// intercept may answer a command in the server's place: with a raw reply, or by closing the connection after it.
	intercept func(connection int, args []string) (reply string, closeAfter bool)
	causal    bool

	listener net.Listener
	mu       sync.Mutex
	accepted int
	conns    map[net.Conn]bool
	wg       sync.WaitGroup
}

func startFake(t testing.TB, s *fakeServer) string {
	t.Helper()
	if s.store == nil {
		s.store = newFakeStore()
	}
	s.conns = make(map[net.Conn]bool)
	var err error
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.wg.Go(s.accept)
	t.Cleanup(func() {
		s.listener.Close()
		s.mu.Lock()
		for c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s.listener.Addr().String()
}

func newFakeStore() *fakeStore { return &fakeStore{values: make(map[string]fakeValue)} }

func (s *fakeServer) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.accepted++
		number := s.accepted
		s.conns[c] = true
		s.mu.Unlock()
		s.wg.Go(func() {
			defer c.Close()
			s.serve(c, number)
		})
	}
}

func (s *fakeServer) serve(c net.Conn, number int) {
	in := bufio.NewReader(c)
	last := ""
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		s.mu.Lock()
		intercept := s.intercept
		s.mu.Unlock()
		if intercept != nil {
			reply, closeAfter := intercept(number, args)
			if reply != "" {
				if _, err := io.WriteString(c, reply); err != nil {
					return
				}
			}
			if closeAfter {
				return
			}
			if reply != "" {
				continue
			}
		}
		if _, err := io.WriteString(c, s.execute(args, &last)); err != nil {
			return
		}
	}
}

func (s *fakeServer) setIntercept(f func(connection int, args []string) (string, bool)) {
	s.mu.Lock()
	s.intercept = f
	s.mu.Unlock()
}

func readCommand(in *bufio.Reader) ([]string, error) {
	number := func(prefix byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if line[0] != prefix {
			return 0, fmt.Errorf("unexpected %q", line)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := number('$')
		if err != nil {
			return nil, err
		}
		data := make([]byte, size+2)
		if _, err := io.ReadFull(in, data); err != nil {
			return nil, err
		}
		args[i] = string(data[:size])
	}
	return args, nil
}

func cond(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func (s *fakeServer) execute(args []string, last *string) string {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	get := func(key string) string {
		v, ok := s.store.values[key]
		*last = v.version
		if !ok || v.deleted {
			return "$-1\r\n"
		}
		return bulk(v.value)
	}
	exists := func(key string) bool {
		v, ok := s.store.values[key]
		return ok && !v.deleted
	}
	put := func(key string, v fakeValue) {
		s.store.clock++
		v.version = fmt.Sprintf("%d@1", s.store.clock)
		s.store.values[key] = v
		*last = v.version
	}
	switch strings.ToUpper(args[0]) {
	case "HELLO":
		return "-NOPROTO only RESP2 here\r\n"
	case "CLIENT", "PING":
		return "+OK\r\n"
	case "GET":
		return get(args[1])
	case "MGET":
		var reply strings.Builder
		fmt.Fprintf(&reply, "*%d\r\n", len(args)-1)
		for _, key := range args[1:] {
			reply.WriteString(get(key))
		}
		return reply.String()
	case "SET":
		has := func(option string) bool {
			return slices.ContainsFunc(args[3:], func(a string) bool { return strings.EqualFold(a, option) })
		}
		before := get(args[1])
		if exists(args[1]) && has("nx") || !exists(args[1]) && has("xx") {
			return cond(has("get"), before, "$-1\r\n")
		}
		put(args[1], fakeValue{value: args[2]})
		return cond(has("get"), before, "+OK\r\n")
	case "SETNX":
		if get(args[1]); exists(args[1]) {
			return ":0\r\n"
		}
		put(args[1], fakeValue{value: args[2]})
		return ":1\r\n"
	case "GETSET":
		before := get(args[1])
		put(args[1], fakeValue{value: args[2]})
		return before
	case "GETDEL":
		before := get(args[1])
		if exists(args[1]) {
			put(args[1], fakeValue{deleted: true})
		}
		return before
	case "APPEND":
		put(args[1], fakeValue{value: s.store.values[args[1]].value + args[2]})
		return fmt.Sprintf(":%d\r\n", len(s.store.values[args[1]].value))
	case "EXPIRE":
		if get(args[1]); !exists(args[1]) {
			return ":0\r\n"
		}
		put(args[1], s.store.values[args[1]]) // it is a write, of the same value
		return ":1\r\n"
	case "INCR", "INCRBY":
		n, err := strconv.Atoi(cmp.Or(s.store.values[args[1]].value, "0"))
		if err != nil {
			return "-ERR value is not an integer or out of range\r\n"
		}
		delta := 1
		if len(args) > 2 {
			delta, _ = strconv.Atoi(args[2])
		}
		put(args[1], fakeValue{value: strconv.Itoa(n + delta)})
		return fmt.Sprintf(":%d\r\n", n+delta)
	case "DEL":
		if get(args[1]); !exists(args[1]) {
			return ":0\r\n"
		}
		put(args[1], fakeValue{deleted: true})
		return ":1\r\n"
	case "CAUSAL":
		if !s.causal {
			break
		}
		if strings.EqualFold(args[1], "WAIT") {
			return "+OK\r\n"
		}
		return "*3\r\n" + bulk(*last) + bulk("cache") + bulk("stable")
	}
	return fmt.Sprintf("-ERR unknown command '%s', with args beginning with: \r\n", args[0])
}
