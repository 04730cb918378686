package apiserver

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/causalstore/causalstore/e2e/binaries"
)

// process is a program that runs.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// run starts the program of a name.
func run(from binaries.Folder, name, log string, args ...string) (*process, error) {
	cmd, err := from.Command(name, args...)
	if err != nil {
		return nil, err
	}
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the child has its own
	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = out, out, dieWithParent()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	return p, nil
}

// stopTimeout is how long a program may take to end by itself.
const stopTimeout = 10 * time.Second

// stop ends the program. A nil process is one that was never started.
func (p *process) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// tail returns the end of what the program has said.
func (p *process) tail() []byte {
	const most = 3000
	b, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(b[max(0, len(b)-most):])
}
