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

// supervisor is the init process of a machine: it restarts programs when they end and reaps orphans.
type supervisor struct {
	logs string

	mu sync.Mutex
	// ended has a channel for each running program, which is closed when the program ends.
	ended map[int]chan struct{}
}

func newSupervisor(logs string) *supervisor {
	return &supervisor{logs: logs, ended: map[int]chan struct{}{}}
}

// reap waits for ended child processes, forever. Nothing else in this process may wait for one.
func (s *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil: // no child now
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

// keepRunning runs a program and restarts it whenever it ends.
func (s *supervisor) keepRunning(name, program string, env []string, args ...string) {
	for {
		ended, err := s.start(name, program, env, args)
		if err != nil {
			fmt.Fprintf(os.Stderr, "start %s: %v\n", name, err)
		} else {
			<-ended
			fmt.Fprintf(os.Stderr, "%s %s ended; restarting it\n", time.Now().Format(time.TimeOnly), name)
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
	s.mu.Lock() // reap must know the program before it ends
	defer s.mu.Unlock()
	p, err := os.StartProcess(program, append([]string{name}, args...),
		&os.ProcAttr{Dir: "/", Env: append(os.Environ(), env...),
			Files: []*os.File{null, log, log}})
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	s.ended[p.Pid] = ended
	return ended, p.Release()
}
