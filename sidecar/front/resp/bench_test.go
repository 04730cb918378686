package resp

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// sink is a socket that accepts all writes and sends nothing.
type sink struct{ net.Conn }

func (sink) Read([]byte) (int, error)         { return 0, io.EOF }
func (sink) Write(b []byte) (int, error)      { return len(b), nil }
func (sink) SetWriteDeadline(time.Time) error { return nil }
func (sink) SetReadDeadline(time.Time) error  { return nil }
func (sink) Close() error                     { return nil }
func (sink) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// loop returns a function that runs a frame through the connection loop: parse, execute, reply, flush.
func loop(t testing.TB, frame []byte) func() {
	store := newMemory()
	store.put("key", cloneValue([]byte("value")))
	s, err := NewServer(Options{Backend: store})
	if err != nil {
		t.Fatal(err)
	}
	c := newConnection(s, s.NewClient(sink{}, nil))
	return func() {
		c.in.commit(copy(c.in.reserve(), frame))
		for {
			args, err := c.in.next()
			if err != nil {
				t.Fatal(err)
			}
			if args == nil {
				break
			}
			c.execute(args)
		}
		c.awaitPuts()
		c.out.flush()
	}
}

func TestConnectionLoopAllocatesLittle(t *testing.T) {
	for name, c := range map[string]struct {
		frame []byte
		max   float64
	}{
		"GET":             {frameOf("GET", "key"), 1},                        // the key
		"SET":             {frameOf("SET", "key", "value"), 2},               // the key and the value
		"SET with expiry": {frameOf("SET", "key", "value", "EX", "1000"), 2}, // the same
		"PING":            {frameOf("PING"), 0},
		// the key, the list of keys, the list of values
		"EXISTS": {frameOf("EXISTS", "key"), 3},
		// two keys, and the closure for peekGetKeys
		"pipelined GET": {batch([]string{"GET", "key"}, []string{"GET", "key"}, []string{"PING"}), 3},
	} {
		run := loop(t, c.frame)
		run()
		if got := testing.AllocsPerRun(1000, run); got > c.max {
			t.Errorf("%s: %.1f allocations, want at most %.0f", name, got, c.max)
		}
	}
}

func BenchmarkLoopGet(b *testing.B)  { benchmarkLoop(b, frameOf("GET", "key")) }
func BenchmarkLoopSet(b *testing.B)  { benchmarkLoop(b, frameOf("SET", "key", "value")) }
func BenchmarkLoopPing(b *testing.B) { benchmarkLoop(b, frameOf("PING")) }

func benchmarkLoop(b *testing.B, frame []byte) {
	run := loop(b, frame)
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}

func BenchmarkGetOverLoopback(b *testing.B) {
	for _, depth := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("pipeline=%d", depth), func(b *testing.B) {
			store := newMemory()
			store.put("key", cloneValue([]byte("value")))
			_, address := serve(b, Options{Backend: store})
			b.RunParallel(func(pb *testing.PB) {
				p := dial(b, address)
				var frames []byte
				for range depth {
					frames = append(frames, frameOf("GET", "key")...)
				}
				replies := make([]byte, depth*len("$5\r\nvalue\r\n"))
				for pb.Next() {
					p.send(frames)
					if _, err := io.ReadFull(p.in, replies); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N*depth)/b.Elapsed().Seconds(), "GET/s")
		})
	}
}
