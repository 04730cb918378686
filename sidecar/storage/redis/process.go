//go:build unix

package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// SpawnOptions say where a server keeps its data.
type SpawnOptions struct {
	// Dir holds the data, the log and the socket. It is made if need be; one server at a time can use it.
	Dir string
	// Binary is the server's program. Default "redis-server", from PATH.
	Binary string
	// StartTimeout bounds the wait until it serves, which includes loading its data. Default 30 s.
	StartTimeout time.Duration
}

// maxSocketPath is the longest path that a unix socket can have on every system.
const maxSocketPath = 103

// Process is a Redis server that this process has started, with the settings that Open asks for.
type Process struct {
	// Socket is the path of its unix socket. It has no other address.
	Socket string

	cmd     *exec.Cmd
	log     string
	scratch string // a directory to remove at the end, if Dir was too long for a socket
	done    chan struct{}
}

// Spawn starts a stock server and returns when it serves. On Linux it dies with this process.
func Spawn(ctx context.Context, opts SpawnOptions) (*Process, error) {
	p, err := spawn(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("start a Redis server in %s: %w", opts.Dir, err)
	}
	return p, nil
}

func spawn(ctx context.Context, opts SpawnOptions) (*Process, error) {
	if opts.Binary == "" {
		opts.Binary = "redis-server"
	}
	if opts.StartTimeout == 0 {
		opts.StartTimeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, opts.StartTimeout)
	defer cancel()
	binary, err := exec.LookPath(opts.Binary)
	if err != nil {
		return nil, fmt.Errorf("%w; install it (Debian: apt-get install redis-server, macOS: brew install redis), or say where it is", err)
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := lockDir(ctx, filepath.Join(dir, "redis.lock"))
	if err != nil {
		return nil, err
	}
	defer lock.Close() // the server keeps a handle of its own, and so the lock
	p := &Process{log: filepath.Join(dir, "redis.log"), Socket: filepath.Join(dir, "redis.sock"), done: make(chan struct{})}
	if len(p.Socket) > maxSocketPath {
		if p.scratch, err = os.MkdirTemp("", "redis-"); err != nil {
			return nil, err
		}
		p.Socket = filepath.Join(p.scratch, "redis.sock")
	}
	if err := p.start(binary, dir, lock); err != nil {
		return nil, errors.Join(err, p.clean())
	}
	if err := p.awaitPong(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; its log ends with:\n%s", err, p.logTail()), p.Kill())
	}
	return p, nil
}

// lockDir waits for the server before, if it is still on its way out.
func lockDir(ctx context.Context, path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return lock, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || !pause(ctx) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w; another server is still running there: stop it, or use another directory", path, err), lock.Close())
		}
	}
}

// pause waits a moment between two looks at something that gives no sign, and returns false when ctx has ended.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(5 * time.Millisecond):
		return true
	}
}

func (p *Process) start(binary, dir string, lock *os.File) error {
	log, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(binary, "--port", "0", "--unixsocket", p.Socket, "--unixsocketperm", "700", "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "no", "--save", "",
		"--maxmemory", "0", "--maxmemory-policy", "noeviction", "--daemonize", "no")
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.ExtraFiles = []*os.File{lock}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(p.cmd.SysProcAttr)
	started := make(chan error)
	go func() {
		// The signal at the parent's death is sent when the thread that started the child ends, so the thread must stay.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in p.cmd.ProcessState
			close(p.done)
		}
	}()
	return <-started
}

// awaitPong waits until the server answers a PING, which it refuses while it loads its data.
func (p *Process) awaitPong(ctx context.Context) error {
	for {
		if p.pong(ctx) {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("it ended at once (%v)", p.cmd.ProcessState)
		default:
		}
		if !pause(ctx) {
			return fmt.Errorf("it does not serve: %w", ctx.Err())
		}
	}
}

func (p *Process) pong(ctx context.Context) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", p.Socket)
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return false
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && strings.HasPrefix(line, "+PONG")
}

// logTail returns the last lines of the server's log.
func (p *Process) logTail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}

// Options returns how to Open a store on it.
func (p *Process) Options() Options { return Options{Socket: p.Socket} }

// Done is closed when the server has ended, for whatever reason.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop asks the server to end and waits for it; when ctx ends first, it is killed. Nothing acknowledged is lost either way.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the Redis server at %s: %w", p.Socket, err)
	}
	select {
	case <-p.done:
		return p.clean()
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stop the Redis server at %s, so it was killed: %w", p.Socket, ctx.Err()), p.Kill())
	}
}

// Kill ends the server as a crash would, and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the Redis server at %s: %w", p.Socket, err)
	}
	<-p.done
	return p.clean()
}

func (p *Process) clean() error {
	if p.scratch == "" {
		return nil
	}
	return os.RemoveAll(p.scratch)
}
