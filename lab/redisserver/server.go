//go:build unix

// Package redisserver starts a stock Redis server as a child process, with settings under which it loses nothing that
// it acknowledged. It is for deployments in one process and for tests.
package redisserver

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

// Options configure a server.
type Options struct {
	// Dir holds the data, the log and the socket. It is created if it does not exist. One server at a time can use it.
	Dir string
	// Binary is the name or path of the program. Default "redis-server", from PATH.
	Binary string
	// StartTimeout limits the time until the server serves, loading of its data included. Default 30 s.
	StartTimeout time.Duration
}

// maxSocketPath is the maximum length of the path of a unix socket that all systems support.
const maxSocketPath = 103

// Server is a running Redis server.
type Server struct {
	// Socket is the path of its unix socket. It has no other address.
	Socket string

	cmd     *exec.Cmd
	log     string
	tempDir string // the directory of the socket, if the path of Dir is too long for one
	done    chan struct{}
}

// Start starts a server and returns once it serves. On Linux, the server is killed when this process ends.
func Start(ctx context.Context, opts Options) (*Server, error) {
	s, err := start(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("start a Redis server in %s: %w", opts.Dir, err)
	}
	return s, nil
}

func start(ctx context.Context, opts Options) (*Server, error) {
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
		return nil,
			fmt.Errorf(
				"%w; install it (Debian: apt-get install redis-server, macOS: brew install redis), or give the path "+
					"of the program", err)
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
	defer lock.Close() // the server inherits the handle, and with it the lock
	s := &Server{log: filepath.Join(dir, "redis.log"), Socket: filepath.Join(dir, "redis.sock"),
		done: make(chan struct{})}
	if len(s.Socket) > maxSocketPath {
		if s.tempDir, err = os.MkdirTemp("", "redis-"); err != nil {
			return nil, err
		}
		s.Socket = filepath.Join(s.tempDir, "redis.sock")
	}
	if err := s.run(binary, dir, lock); err != nil {
		return nil, errors.Join(err, s.removeTempDir())
	}
	if err := s.awaitPong(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; its log ends with:\n%s", err, s.logTail()), s.Kill())
	}
	return s, nil
}

// lockDir locks the directory. It waits for a previous server that is still shutting down.
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
			return nil,
				errors.Join(
					fmt.Errorf(
						"lock %s: %w; another server is still running in this directory: stop it, or use another "+
							"directory", path, err), lock.Close())
		}
	}
}

// pause waits for the time between two polls. It returns false if ctx has ended.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(5 * time.Millisecond):
		return true
	}
}

func (s *Server) run(binary, dir string, lock *os.File) error {
	log, err := os.OpenFile(s.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(binary, "--port", "0", "--unixsocket", s.Socket, "--unixsocketperm", "700", "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "no", "--save", "",
		"--maxmemory", "0", "--maxmemory-policy", "noeviction", "--daemonize", "no")
	s.cmd.Dir = dir
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.ExtraFiles = []*os.File{lock}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{}
	killWithParent(s.cmd.SysProcAttr)
	started := make(chan error)
	go func() {
		// The kernel kills the child when the thread that started it ends, so the thread must live as long as the
		// process.
		runtime.LockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // s.cmd.ProcessState has the result
			close(s.done)
		}
	}()
	return <-started
}

// awaitPong waits until the server answers PING, which it refuses while it loads its data.
func (s *Server) awaitPong(ctx context.Context) error {
	for {
		if s.ping(ctx) {
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("it ended immediately (%v)", s.cmd.ProcessState)
		default:
		}
		if !pause(ctx) {
			return fmt.Errorf("it does not serve: %w", ctx.Err())
		}
	}
}

func (s *Server) ping(ctx context.Context) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", s.Socket)
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
func (s *Server) logTail() string {
	b, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}

// Pid returns the id of the server's process.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Done returns a channel that is closed when the server has ended, for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop asks the server to shut down and waits until it has. If ctx ends first, it kills the server. Either way, nothing
// acknowledged is lost.
func (s *Server) Stop(ctx context.Context) error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the Redis server at %s: %w", s.Socket, err)
	}
	select {
	case <-s.done:
		return s.removeTempDir()
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stop the Redis server at %s: %w; it was killed", s.Socket, ctx.Err()), s.Kill())
	}
}

// Kill ends the server as a crash would, and waits until it has ended.
func (s *Server) Kill() error {
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the Redis server at %s: %w", s.Socket, err)
	}
	<-s.done
	return s.removeTempDir()
}

func (s *Server) removeTempDir() error {
	if s.tempDir == "" {
		return nil
	}
	return os.RemoveAll(s.tempDir)
}
