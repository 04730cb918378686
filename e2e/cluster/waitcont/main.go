//go:build linux

// Command waitcont waits for SIGCONT and then becomes the command that its arguments name. The daemon of Chaos Mesh
// calls it pause, and moves it to the cgroups of a container before the command starts.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

func init() { runtime.LockOSThread() }

func main() {
	fmt.Fprintln(os.Stderr, "pause:", run(os.Args[1:]))
	os.Exit(127)
}

// run returns only with an error.
func run(command []string) error {
	if len(command) == 0 {
		return errors.New("give a command to run after SIGCONT")
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCONT)
	<-signals
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, command, os.Environ())
}
