package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// attack is something that clients do to make a part take much memory.
type attack struct {
	name, what string
	spec       func(*LimitsOptions, *processSpec)
	prepare    func(context.Context, *siege) error
	// run makes the attack until ctx ends.
	run func(context.Context, *siege) error
}

// attacks are all of them, in the order in which they are made.
var attacks = []attack{
	{name: "slow-readers", what: "pipelines of GETs of 1 MiB whose replies nobody reads",
		prepare: func(ctx context.Context, s *siege) error { return s.fill("big:", 16, 1<<20) },
		run: func(ctx context.Context, s *siege) error {
			return s.each(ctx, func(c *conn, i int) error {
				for n := range 256 {
					c.command("GET", "big:"+strconv.Itoa((i+n)%16))
				}
				return c.flush()
			})
		}},
	{name: "large-gets", what: "GETs of 16 MiB by all clients at once",
		prepare: func(ctx context.Context, s *siege) error { return s.fill("huge:", 4, 16<<20) },
		run: func(ctx context.Context, s *siege) error {
			return s.each(ctx, func(c *conn, i int) error {
				for ctx.Err() == nil {
					c.command("GET", "huge:"+strconv.Itoa(i%4))
					if err := s.replies(c, 1); err != nil {
						return err
					}
				}
				return nil
			})
		}},
	{name: "half-sent", what: "SETs of 16 MiB of which all but the last byte is sent",
		run: func(ctx context.Context, s *siege) error {
			return s.each(ctx, func(c *conn, i int) error {
				fmt.Fprintf(c.w, "*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$%d\r\n", 16<<20)
				_, _ = c.w.Write(make([]byte, 16<<20-1)) // flush returns its error
				return c.flush()
			})
		}},
	{name: "large-sets", what: "pipelined SETs of 16 MiB by all clients",
		run: func(ctx context.Context, s *siege) error { return s.floodSets(ctx, 16<<20-64, 4, 4) }},
	{name: "mgets", what: "MGETs of 2000 values of 64 KiB",
		prepare: func(ctx context.Context, s *siege) error { return s.fill("m:", 2000, 64<<10) },
		run: func(ctx context.Context, s *siege) error {
			return s.each(ctx, func(c *conn, i int) error {
				names := []string{"MGET"}
				for k := range 2000 {
					names = append(names, "m:"+strconv.Itoa(k))
				}
				for ctx.Err() == nil {
					c.command(names...)
					if err := c.flush(); err != nil {
						return err
					}
					if i%2 == 0 { // the others read nothing
						if err := s.replies(c, 1); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}},
	{name: "large-mgets", what: "MGETs of eight values of 16 MiB",
		prepare: func(ctx context.Context, s *siege) error { return s.fill("huge:", 8, 16<<20) },
		run: func(ctx context.Context, s *siege) error {
			return s.each(ctx, func(c *conn, i int) error {
				for ctx.Err() == nil {
					c.command("MGET", "huge:0", "huge:1", "huge:2", "huge:3", "huge:4", "huge:5", "huge:6", "huge:7")
					if err := s.replies(c, 1); err != nil {
						return err
					}
				}
				return nil
			})
		}},
	{name: "transactions", what: "MULTI with 60 MiB of queued SETs and GETs each",
		prepare: func(ctx context.Context, s *siege) error { return s.fill("big:", 16, 1<<20) },
		run: func(ctx context.Context, s *siege) error {
			return s.each(ctx, func(c *conn, i int) error {
				c.command("MULTI")
				for k := range 60 {
					c.command("SET", fmt.Sprintf("t:%d:%d", i, k), string(make([]byte, 1<<20)))
					c.command("GET", "big:"+strconv.Itoa(k%16))
				}
				c.command("EXEC")
				return c.flush()
			})
		}},
	{name: "stopped-storage", what: "SETs of 64 KiB while the storage is stopped",
		run: func(ctx context.Context, s *siege) error {
			if err := s.pause(s.p.find("middleman", "here").storage.Pid()); err != nil {
				return err
			}
			return s.floodSets(ctx, 64<<10, 100000, 16)
		}},
	{name: "stopped-coordinator", what: "SETs of 64 KiB while the coordinator is stopped",
		run: func(ctx context.Context, s *siege) error {
			if err := s.pause(s.p.find("coordinator", "here").program.pid()); err != nil {
				return err
			}
			return s.floodSets(ctx, 64<<10, 100000, 16)
		}},
	{name: "ring-away", what: "SETs of 64 KiB while the other ring is stopped",
		spec: func(_ *LimitsOptions, spec *processSpec) { spec.topology = twoRings() },
		run: func(ctx context.Context, s *siege) error {
			if err := s.pause(s.p.find("middleman", "far").program.pid()); err != nil {
				return err
			}
			return s.floodSets(ctx, 64<<10, 100000, 16)
		}},
	{name: "many-keys", what: "more keys than the cache has room for, written and read",
		spec: func(o *LimitsOptions, spec *processSpec) { spec.cacheBytes = o.CacheBytes },
		run:  func(_ context.Context, s *siege) error { return s.throughTheCache() }},
	{name: "near-copies", what: "hot keys of 32 KiB, more than near copies have room for",
		spec:    func(_ *LimitsOptions, spec *processSpec) { spec.nearBytes = 64 << 20 },
		prepare: func(ctx context.Context, s *siege) error { return s.fill("n:", 4000, 32<<10) },
		run: func(ctx context.Context, s *siege) error {
			return s.each(ctx, func(c *conn, i int) error {
				for k := 0; ctx.Err() == nil; k++ {
					for range 8 {
						c.command("GET", "n:"+strconv.Itoa((i*37+k)%4000))
					}
					if err := s.replies(c, 8); err != nil {
						return err
					}
				}
				return nil
			})
		}},
}

// allAttacks are those of clients, and those of peers.
func allAttacks() []attack { return slices.Concat(attacks, peerAttacks) }

// attackNames returns the names of all attacks.
func attackNames() []string {
	var names []string
	for _, a := range allAttacks() {
		names = append(names, a.name)
	}
	return names
}

// siege is a deployment under attack.
type siege struct {
	*LimitsOptions
	p *processes

	mu     sync.Mutex
	open   []*conn
	peers  []io.Closer
	paused []int
	errors map[string]int
}

// close ends all clients.
func (s *siege) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		_ = c.Close() // some are closed by the sidecar
	}
	var errs []error
	for _, a := range s.peers {
		errs = append(errs, a.Close())
	}
	s.open, s.peers = nil, nil
	return errors.Join(errs...)
}

// pause stops a process with SIGSTOP until resume.
func (s *siege) pause(pid int) error {
	s.paused = append(s.paused, pid)
	return syscall.Kill(pid, syscall.SIGSTOP)
}

func (s *siege) resume() error {
	var errs []error
	for _, pid := range s.paused {
		errs = append(errs, syscall.Kill(pid, syscall.SIGCONT))
	}
	s.paused = nil
	return errors.Join(errs...)
}

// each lets all clients do the same until ctx ends, and keeps their connections open until then. A client whose
// connection the sidecar closes comes again.
func (s *siege) each(ctx context.Context, act func(c *conn, i int) error) error {
	var wait sync.WaitGroup
	for i := range s.Connections {
		wait.Go(func() {
			for ctx.Err() == nil {
				c, err := s.dial()
				if err == nil {
					_ = c.SetDeadline(time.Now().Add(s.Length)) // a Conn that cannot is closed
					err = act(c, i)
				}
				if err == nil {
					break
				}
				if c != nil {
					_ = c.Close() // it is broken already
				}
				_ = sleep(ctx, 10*time.Millisecond) // the loop looks at ctx
			}
		})
	}
	wait.Wait()
	<-ctx.Done()
	return nil
}

// floodSets lets all clients write values into some keys, with a number of commands in each pipeline.
func (s *siege) floodSets(ctx context.Context, bytes, keys, pipeline int) error {
	value := strings.Repeat("v", bytes)
	return s.each(ctx, func(c *conn, i int) error {
		for n := 0; ctx.Err() == nil; n += pipeline {
			for k := range pipeline {
				c.command("SET", fmt.Sprintf("f:%d", (i*7919+n+k)%keys), value)
			}
			if err := s.replies(c, pipeline); err != nil {
				return err
			}
		}
		return nil
	})
}

// fill writes values, one after the other.
func (s *siege) fill(prefix string, n, bytes int) error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	value := strings.Repeat("v", bytes)
	for i := range n {
		reply, err := c.ask("SET", prefix+strconv.Itoa(i), value)
		if err == nil && strings.HasPrefix(reply.line, "-BUSY") {
			_ = sleep(context.Background(), 100*time.Millisecond) // it drains
			reply, err = c.ask("SET", prefix+strconv.Itoa(i), value)
		}
		if err != nil || !isOK(reply) {
			return fmt.Errorf("SET was answered %q, %w", reply, err)
		}
	}
	return nil
}

// throughTheCache writes Keys keys and reads each of them twice.
func (s *siege) throughTheCache() error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	const chunk = 1000
	value := strings.Repeat("v", 100)
	for _, verb := range []string{"SET", "GET", "GET"} {
		for at := 0; at < s.Keys; at += chunk {
			for k := at; k < at+chunk; k++ {
				if verb == "SET" {
					c.command("SET", "c:"+strconv.Itoa(k), value)
				} else {
					c.command("GET", "c:"+strconv.Itoa(k))
				}
			}
			if err := s.replies(c, chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// replies sends what is in the output of a client and takes n replies, until its deadline. It counts errors by their
// first word.
func (s *siege) replies(c *conn, n int) error {
	return c.take(n, func(r reply) {
		if text, failed := strings.CutPrefix(r.line, "-"); failed {
			word, _, _ := strings.Cut(text, " ")
			s.mu.Lock()
			s.errors[word]++
			s.mu.Unlock()
		}
	})
}

// forgetPeak makes the greatest resident memory of a process start over.
func forgetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// peakBytes returns the greatest resident memory of a process, less what is mapped from files now, which hardly
// changes.
func peakBytes(pid int) (int64, error) {
	status := fmt.Sprintf("/proc/%d/status", pid)
	peak, err := statusField(status, "VmHWM")
	if err != nil {
		return 0, err
	}
	mapped, err := statusField(status, "RssFile")
	return (peak - mapped) << 10, err
}
