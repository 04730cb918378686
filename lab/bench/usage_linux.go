package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of CPU times in /proc: USER_HZ is 100 on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// cpuTime returns the CPU time of a process, user and system.
func cpuTime(pid int) (time.Duration, error) {
	fields, err := procStat(pid)
	if err != nil {
		return 0, err
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("/proc/%d/stat: CPU times %q and %q are not numbers", pid, fields[11], fields[12])
	}
	return time.Duration(user+system) * clockTick, nil
}

// procStat returns the fields of /proc/PID/stat starting with the third, the state.
func procStat(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // the name before may contain spaces
	if len(fields) < 22 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields, nil
}

// residentBytes returns the resident memory of a process.
func residentBytes(pid int) (int64, error) {
	fields, err := procStat(pid)
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseInt(fields[21], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// voluntarySwitches returns how often the threads of a process have gone to sleep, and so were woken up.
func voluntarySwitches(pid int) (int64, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, f := range files {
		n, err := statusField(f, "voluntary_ctxt_switches")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// anonymousBytes returns the resident memory of a process without what it maps from files, which is mostly the program.
func anonymousBytes(pid int) (int64, error) {
	kib, err := statusField(fmt.Sprintf("/proc/%d/status", pid), "RssAnon")
	return kib << 10, err
}

// statusField returns the number in a line of a status file in /proc.
func statusField(file, name string) (int64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no line %s", file, name)
}

// childrenOf returns the children of a process.
func childrenOf(pid int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var children []int
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if fields, err := procStat(child); err == nil && fields[1] == strconv.Itoa(pid) {
			children = append(children, child)
		}
	}
	return children
}

// ownCPU returns the CPU time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// cpuModel names the processor.
func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// busyTime returns the CPU time that the machine has spent on anything, and that its host has stolen.
func busyTime() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal
	if len(fields) < 9 {
		return 0, fmt.Errorf("/proc/stat starts with the unexpected line %q", line)
	}
	var ticks int64
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}
