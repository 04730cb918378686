//go:build unix

package redisserver

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testContext limits the time of a test, so that it fails instead of hanging.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func mustStart(t testing.TB, dir string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server in PATH: apt-get install redis-server")
	}
	p, err := Start(testContext(t), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// do runs a command and returns its reply.
func do(t testing.TB, p *Server, args ...any) string {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Network: "unix", Addr: p.Socket, Protocol: 2})
	defer c.Close()
	reply, err := c.Do(testContext(t), args...).Text()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

func TestStartWithoutTheProgramSaysHowToInstallIt(t *testing.T) {
	_, err := Start(testContext(t), Options{Dir: t.TempDir(), Binary: "no-such-redis-server"})
	if err == nil || !strings.Contains(err.Error(), "apt-get install redis-server") ||
		!strings.Contains(err.Error(), "no-such-redis-server") {
		t.Errorf("got %v", err)
	}
}

func TestStartOfAServerThatFailsShowsItsLog(t *testing.T) {
	mustStart(t, t.TempDir()) // skips if there is no server
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "appendonlydir"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(testContext(t), Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "appendonlydir") {
		t.Errorf("got %v", err)
	}
}

func TestTwoServersCannotShareADirectory(t *testing.T) {
	dir := t.TempDir()
	mustStart(t, dir)
	_, err := Start(testContext(t), Options{Dir: dir, StartTimeout: 50 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "another server is still running") {
		t.Errorf("got %v", err)
	}
}

func TestDirectoryMayBeTooLongForASocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	p := mustStart(t, dir)
	if reply := do(t, p, "SET", "k", "v"); reply != "OK" {
		t.Errorf("SET: %q", reply)
	}
	if err := p.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(p.Socket)); !os.IsNotExist(err) {
		t.Errorf("the directory of the socket was not removed: %v", err)
	}
}

func TestDataSurvivesStop(t *testing.T) {
	dir := t.TempDir()
	p := mustStart(t, dir)
	do(t, p, "SET", "k", "v")
	for range 2 { // the second Stop does nothing
		if err := p.Stop(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-p.Done():
	default:
		t.Error("Done is not closed after Stop")
	}
	if got := do(t, mustStart(t, dir), "GET", "k"); got != "v" {
		t.Errorf("GET: %q", got)
	}
}

func TestServerThatDoesNotStopIsKilled(t *testing.T) {
	p := mustStart(t, t.TempDir())
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(testContext(t), 50*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("got %v", err)
	}
	<-p.Done()
}

// TestServerIsKilledWithItsParent runs this test again in another process, which it kills.
func TestServerIsKilledWithItsParent(t *testing.T) {
	if dir := os.Getenv("REDISSERVER_TEST_PARENT"); dir != "" {
		p, err := Start(context.Background(), Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\npid %d\n", p.cmd.Process.Pid)
		select {} // until the process is killed
	}
	dir := t.TempDir()
	mustStart(t, filepath.Join(dir, "probe")) // skips if there is no server
	parent := exec.Command(os.Args[0], "-test.run", "^TestServerIsKilledWithItsParent$")
	parent.Env = append(os.Environ(), "REDISSERVER_TEST_PARENT="+dir)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "pid "); ok {
			pid, _ = strconv.Atoi(text)
		}
	}
	if err := parent.Process.Kill(); err != nil || pid == 0 {
		t.Fatalf("pid %d, %v", pid, err)
	}
	_ = parent.Wait() // it was killed
	// The directory is unlocked once the server has ended.
	p, err := Start(testContext(t), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
}
