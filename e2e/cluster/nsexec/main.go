//go:build linux

// Command nsexec runs a command in namespaces of another process, for the daemon of Chaos Mesh:
//
//	nsexec [-l] [-i PATH] [-n PATH] [-p PATH] [-m PATH] -- COMMAND [ARGUMENT]...
//
// The options name files such as /proc/7/ns/net, of the namespaces for IPC, network, processes and mounts. Its exit
// code is that of the command, or 128 and the number of the signal that has ended it. The command ends with nsexec. A
// command in another namespace of mounts is found there; -l, which asks for one of this namespace, is refused.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit codes of nsexec itself.
const (
	exitUsage     = 64
	exitNamespace = 125
	exitCommand   = 127
)

// A thread enters namespaces, not a process. The main goroutine stays on the first thread, which starts the command.
func init() { runtime.LockOSThread() }

// child is the name by which nsexec starts itself, as the process that becomes the command.
const child = "nsexec-child"

func main() {
	var code int
	var err error
	if os.Args[0] == child {
		code, err = exitCommand, become(os.Args[1], os.Args[2:])
	} else {
		code, err = run(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "nsexec:", err)
	}
	os.Exit(code)
}

// namespace is a namespace to enter.
type namespace struct {
	kind int
	path string
}

func run(args []string) (int, error) {
	namespaces, mounts, command, err := parse(args)
	if err != nil {
		return exitUsage, err
	}
	for _, n := range namespaces {
		if err := n.enter(); err != nil {
			return exitNamespace, err
		}
	}
	return supervise(mounts, command)
}

// parse returns the namespaces that this process enters, the path of that of mounts, and the command.
func parse(args []string) (namespaces []namespace, mounts string, command []string, err error) {
	flags := flag.NewFlagSet("nsexec", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	ipc, network, processes := flags.String("i", "", ""), flags.String("n", "", ""), flags.String("p", "", "")
	flags.StringVar(&mounts, "m", "", "")
	local := flags.Bool("l", false, "")
	if err := flags.Parse(args); err != nil {
		return nil, "", nil, err
	}
	if flags.NArg() == 0 {
		return nil, "", nil, errors.New("give a command after --")
	}
	if *local && mounts != "" {
		return nil, "", nil,
			errors.New("-l with -m is not supported: a command of this namespace of mounts cannot run in another one")
	}
	for _, n := range []namespace{{unix.CLONE_NEWIPC, *ipc}, {unix.CLONE_NEWNET, *network},
		{unix.CLONE_NEWPID, *processes}} {
		if n.path != "" {
			namespaces = append(namespaces, n)
		}
	}
	return namespaces, mounts, flags.Args(), nil
}

func (n namespace) enter() error {
	file, err := os.Open(n.path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := unix.Setns(int(file.Fd()), n.kind); err != nil {
		return fmt.Errorf("enter %s: %w", n.path, err)
	}
	return nil
}

// supervise runs a command, passes signals on to it, and returns its exit code.
func supervise(mounts string, command []string) (int, error) {
	program, err := os.Executable()
	if err != nil {
		return exitCommand, err
	}
	alive, hold, err := os.Pipe()
	if err != nil {
		return exitCommand, err
	}
	defer func() { _ = hold.Close() }() // with this process, at the latest
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGCONT)
	cmd := exec.Command(program)
	cmd.Args = append([]string{child, mounts}, command...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{alive}
	if err := cmd.Start(); err != nil {
		return exitCommand, err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // it may have ended
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return exitCommand, err
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// alivePipe is the file descriptor of a pipe that its parent holds open.
const alivePipe = 3

// become turns this process into the command, which ends with the parent. It returns only with an error. Package
// syscall could arrange for the end when it starts a process, but it takes a parent in another namespace of processes
// for one that is dead.
func become(mounts string, command []string) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	parent := []unix.PollFd{{Fd: alivePipe}}
	if _, err := unix.Poll(parent, 0); err == nil && parent[0].Revents&unix.POLLHUP != 0 {
		return errors.New("nsexec has ended")
	}
	unix.CloseOnExec(alivePipe)
	if mounts != "" {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			// a thread that shares its working directory cannot enter a namespace of mounts
			return err
		}
		if err := (namespace{unix.CLONE_NEWNS, mounts}).enter(); err != nil {
			return err
		}
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, command, os.Environ())
}
