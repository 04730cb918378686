//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// supervisor is what a first process does: it starts programs again when they end, and buries orphans.
type supervisor struct {
	logs string

	mu sync.Mutex
	// ended is told of the end of those that were started here.
	ended map[int]chan struct{}
}

func newSupervisor(logs string) *supervisor {
	return &supervisor{logs: logs, ended: map[int]chan struct{}{}}
}

// bury waits for the end of any process, for ever. Nobody else in this process may wait for one.
func (s *supervisor) bury() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil: // there is none now
			time.Sleep(100 * time.Millisecond)
			continue
		}
		s.mu.Lock()
		if c := s.ended[pid]; c != nil {
			close(c)
			delete(s.ended, pid)
		}
		s.mu.Unlock()
	}
}

// keep runs a program for ever.
func (s *supervisor) keep(name, program string, env []string, args ...string) {
	for {
		ended, err := s.start(name, program, env, args)
		if err != nil {
			fmt.Fprintf(os.Stderr, "start %s: %v\n", name, err)
		} else {
			<-ended
			fmt.Fprintf(os.Stderr, "%s %s has ended and is started again\n", time.Now().Format(time.TimeOnly), name)
		}
		time.Sleep(time.Second)
	}
}

func (s *supervisor) start(name, program string, env, args []string) (<-chan struct{}, error) {
	log, err := os.OpenFile(filepath.Join(s.logs, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	s.mu.Lock() // bury is to know of it before it hears of its end
	defer s.mu.Unlock()
	p, err := os.StartProcess(program, append([]string{name}, args...), &os.ProcAttr{Dir: "/", Env: append(os.Environ(), env...),
		Files: []*os.File{null, log, log}})
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	s.ended[p.Pid] = ended
	return ended, p.Release()
}
