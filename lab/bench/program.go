package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// program is a child process. It is killed when this process dies.
type program struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// startProgram starts a program in dir, with its output in a file there, and variables beside those of the environment.
func startProgram(env []string, dir, name, binary string, args ...string) (*program, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &program{name: name, cmd: exec.Command(binary, args...), log: filepath.Join(dir, name+".log"),
		done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = dir, log, log, append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(p.cmd.SysProcAttr)
	started := make(chan error)
	go func() {
		// The kernel signals the child when the thread that started it ends, so this thread must stay.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in ProcessState
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

func (p *program) pid() int { return p.cmd.Process.Pid }

// await waits until ready holds. It fails if the process ends or the time is up.
func (p *program) await(ctx context.Context, bound time.Duration, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for !ready() {
		select {
		case <-p.done:
			return p.hasEnded()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; its output ends with:\n%s", p.name, ctx.Err(), p.tail())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// hasEnded is the error of a process that has ended too early.
func (p *program) hasEnded() error {
	return fmt.Errorf("%s exited early (%v); its output ends with:\n%s", p.name, p.cmd.ProcessState, p.tail())
}

// tail is the end of the output of the process.
func (p *program) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}

// stop sends SIGTERM and kills the process after ten seconds.
func (p *program) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(10 * time.Second):
		err := p.cmd.Process.Kill()
		<-p.done
		return errors.Join(fmt.Errorf("%s did not exit within 10 s of SIGTERM and was killed", p.name), err)
	}
}

// kill ends the process at once.
func (p *program) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.done
	return nil
}
