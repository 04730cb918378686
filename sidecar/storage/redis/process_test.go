//go:build unix

package redis

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
)

func TestAMissingServerProgramIsAnErrorThatSaysHowToInstallIt(t *testing.T) {
	_, err := Spawn(testContext(t), SpawnOptions{Dir: t.TempDir(), Binary: "no-such-redis-server"})
	if err == nil || !strings.Contains(err.Error(), "apt-get install redis-server") || !strings.Contains(err.Error(), "no-such-redis-server") {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatCannotStartShowsItsLog(t *testing.T) {
	mustSpawn(t, t.TempDir()) // skips where there is none
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "appendonlydir"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Spawn(testContext(t), SpawnOptions{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "appendonlydir") {
		t.Errorf("got %v", err)
	}
}

func TestTwoServersDoNotShareADirectory(t *testing.T) {
	dir := t.TempDir()
	mustSpawn(t, dir)
	_, err := Spawn(testContext(t), SpawnOptions{Dir: dir, StartTimeout: 50 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "another server is still running") {
		t.Errorf("got %v", err)
	}
}

func TestADirectoryTooLongForASocketWorks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	p := mustSpawn(t, dir)
	s := mustOpen(t, p.Options())
	mustApply(t, s, set("k", "v"))
	if err := p.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(p.Socket)); !os.IsNotExist(err) {
		t.Errorf("the directory of the socket is left: %v", err)
	}
}

func TestDataSurvivesAStop(t *testing.T) {
	dir := t.TempDir()
	p := mustSpawn(t, dir)
	mustApply(t, mustOpen(t, p.Options()), set("k", "v"))
	for range 2 { // a second Stop does nothing
		if err := p.Stop(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-p.Done():
	default:
		t.Error("Done is open after Stop")
	}
	wantData(t, mustOpen(t, mustSpawn(t, dir).Options()), "k", "v")
}

func TestAServerThatDoesNotStopIsKilled(t *testing.T) {
	p := mustSpawn(t, t.TempDir())
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

// TestTheServerDiesWithItsParent runs this test again in a process of its own, which is then killed.
func TestTheServerDiesWithItsParent(t *testing.T) {
	if dir := os.Getenv("STORAGE_REDIS_TEST_PARENT"); dir != "" {
		p, err := Spawn(context.Background(), SpawnOptions{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\npid %d\n", p.cmd.Process.Pid)
		select {} // until it is killed
	}
	dir := t.TempDir()
	mustSpawn(t, filepath.Join(dir, "probe")) // skips where there is none
	parent := exec.Command(os.Args[0], "-test.run", "^TestTheServerDiesWithItsParent$")
	parent.Env = append(os.Environ(), "STORAGE_REDIS_TEST_PARENT="+dir)
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
	// The lock of the directory is free once the server is gone.
	p, err := Spawn(testContext(t), SpawnOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
}
