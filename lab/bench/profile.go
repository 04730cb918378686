package bench

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// stack is one sample of a CPU profile: function names from the leaf on, and nanoseconds of CPU.
type stack struct {
	functions []string
	nanos     int64
}

// parseProfile reads a CPU profile as net/http/pprof serves it.
func parseProfile(b []byte) ([]stack, error) {
	p, err := profile.ParseData(b)
	if err != nil {
		return nil, fmt.Errorf("parse CPU profile: %w", err)
	}
	cpu := slices.IndexFunc(p.SampleType, func(v *profile.ValueType) bool {
		return v.Type == "cpu" && v.Unit == "nanoseconds"
	})
	if cpu < 0 {
		return nil,
			errors.New("parse CPU profile: it has no CPU time in nanoseconds; give a profile of /debug/pprof/profile")
	}
	stacks := make([]stack, 0, len(p.Sample))
	for _, sample := range p.Sample {
		s := stack{nanos: sample.Value[cpu]}
		for _, location := range sample.Location {
			for _, line := range location.Line { // the innermost inlined call first
				if line.Function != nil { // an address without a symbol has none
					s.functions = append(s.functions, line.Function.Name)
				}
			}
		}
		stacks = append(stacks, s)
	}
	return stacks, nil
}

// keepProfile reads a CPU profile, and writes it to a directory as <name>.pprof, if one is given.
func keepProfile(raw []byte, dir, name string) ([]stack, error) {
	if dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".pprof"), raw, 0o644); err != nil {
			return nil, fmt.Errorf("write the profile: %w", err)
		}
	}
	return parseProfile(raw)
}

// share is the part of the CPU time that went to one layer or function.
type share struct {
	Name string  `json:"name"`
	Part float64 `json:"part"` // of 1
}

// module prefixes the names of this program's functions.
const module = "github.com/causalstore/causalstore/"

// layerOf attributes a sample to garbage collection, to the scheduler, to a system call or to an allocation if it is in
// one. Otherwise the sample belongs to the package of this program that is nearest to the leaf, so that copies, maps,
// locks and the rest of the standard library count for their caller.
func layerOf(functions []string) string {
	for _, f := range functions {
		switch f {
		case "runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge",
			"runtime.gcStart",
			"runtime.gcMarkDone":
			return "GC"
		}
	}
	for _, f := range functions {
		switch {
		case strings.HasPrefix(f, "internal/runtime/syscall.") || strings.HasPrefix(f, "internal/runtime/syscall/") ||
			strings.HasPrefix(f, "syscall.") || strings.HasPrefix(f, "runtime/internal/syscall."):
			return syscallLayer(functions)
		case f == "runtime.mallocgc" || f == "runtime.growslice" || f == "runtime.newobject":
			return "allocation"
		case f == "runtime.schedule" || f == "runtime.mcall" || f == "runtime.park_m" || f == "runtime.mstart" ||
			f == "runtime.morestack" ||
			f == "runtime.goready" || f == "runtime.ready" || f == "runtime.gosched_m" || f == "runtime.sysmon":
			return "scheduler"
		}
		if layer := packageLayer(f); layer != "" {
			return layer
		}
	}
	return "runtime"
}

// syscallLayer attributes a system call to the nearest caller whose purpose is known.
func syscallLayer(functions []string) string {
	for _, f := range functions {
		switch {
		case f == "runtime.findRunnable" || f == "runtime.netpoll":
			return "scheduler"
		case strings.Contains(f, "redis/go-redis"):
			return "storage syscalls"
		case !strings.HasPrefix(f, module): // pebble's file systems serve the log as well as the storage
			continue
		}
		switch packageLayer(f) {
		case "wal":
			return "log syscalls"
		case "storage":
			return "storage syscalls"
		case "front":
			return "client socket syscalls"
		}
	}
	return "other syscalls"
}

// packageLayer names the layer of a function by its package, "" if the function counts for its caller. The layers of
// this program are the folders of the data plane (storage, wal, ...) and of its tools (local, bench, ...).
func packageLayer(f string) string {
	if path, ok := strings.CutPrefix(f, module); ok {
		for _, tree := range []string{"sidecar/", "lab/"} {
			path = strings.TrimPrefix(path, tree)
		}
		return path[:strings.IndexAny(path+".", "./")]
	}
	switch {
	case strings.Contains(f, "redis/go-redis") || strings.Contains(f, "cockroachdb/pebble"):
		return "storage"
	case strings.HasPrefix(f, "net.") || strings.HasPrefix(f, "internal/poll."):
		return "net"
	}
	return ""
}

// shares sums CPU time by layer and by leaf function, largest first, and returns at most so many functions.
func shares(stacks []stack, functions int) (layers, leaves []share, total int64) {
	byLayer, byLeaf := map[string]int64{}, map[string]int64{}
	for _, s := range stacks {
		total += s.nanos
		byLayer[layerOf(s.functions)] += s.nanos
		if len(s.functions) > 0 {
			byLeaf[shortName(s.functions[0])] += s.nanos
		}
	}
	layers, leaves = ranked(byLayer, total), ranked(byLeaf, total)
	return layers, leaves[:min(functions, len(leaves))], total
}

// shortName drops the path that all functions of the data plane share.
func shortName(function string) string {
	return strings.TrimPrefix(strings.TrimPrefix(function, module), "sidecar/")
}

func ranked(sums map[string]int64, total int64) []share {
	all := make([]share, 0, len(sums))
	for name, n := range sums {
		all = append(all, share{name, float64(n) / float64(max(total, 1))})
	}
	slices.SortFunc(all, func(a, b share) int {
		return cmp.Or(cmp.Compare(b.Part, a.Part), strings.Compare(a.Name, b.Name))
	})
	return all
}
