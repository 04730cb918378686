//go:build !linux

package bench

import (
	"errors"
	"syscall"
	"time"
)

var errNoProc = errors.New("CPU time and memory of other processes are read from /proc, which only Linux has")

func cpuTime(int) (time.Duration, error) { return 0, errNoProc }
func residentBytes(int) (int64, error)   { return 0, errNoProc }
func childrenOf(int) []int               { return nil }
func ownCPU() time.Duration              { return 0 }
func dieWithParent(*syscall.SysProcAttr) {}
func cpuModel() string                   { return "unknown" }
func busyTime() (time.Duration, error)   { return 0, errNoProc }
