package bench

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// stack is one sample of a CPU profile: function names from the leaf on, and nanoseconds of CPU.
type stack struct {
	functions []string
	nanos     int64
}

// parseProfile reads a CPU profile as net/http/pprof serves it: a gzipped profile.proto, of which only the samples with
// their functions are of interest.
func parseProfile(b []byte) ([]stack, error) {
	zr, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("CPU profile: %w", err)
	}
	if b, err = io.ReadAll(zr); err != nil {
		return nil, fmt.Errorf("CPU profile: %w", err)
	}
	var (
		names     []string
		functions = map[uint64]uint64{}   // id -> index of name
		locations = map[uint64][]uint64{} // id -> function ids, the innermost inlined one first
		samples   [][2][]uint64           // locations and values
	)
	err = eachField(b, func(field protowire.Number, v uint64, sub []byte) error {
		switch field {
		case 2: // sample
			var s [2][]uint64
			err := eachField(sub, func(f protowire.Number, v uint64, packed []byte) error {
				if f != 1 && f != 2 {
					return nil
				}
				if packed == nil {
					s[f-1] = append(s[f-1], v)
				}
				for len(packed) > 0 {
					x, n := protowire.ConsumeVarint(packed)
					if n < 0 {
						return protowire.ParseError(n)
					}
					s[f-1], packed = append(s[f-1], x), packed[n:]
				}
				return nil
			})
			samples = append(samples, s)
			return err
		case 4: // location: id, lines
			var id uint64
			var funcs []uint64
			err := eachField(sub, func(f protowire.Number, v uint64, line []byte) error {
				switch f {
				case 1:
					id = v
				case 4:
					return eachField(line, func(f protowire.Number, v uint64, _ []byte) error {
						if f == 1 {
							funcs = append(funcs, v)
						}
						return nil
					})
				}
				return nil
			})
			locations[id] = funcs
			return err
		case 5: // function: id, name
			var id, name uint64
			err := eachField(sub, func(f protowire.Number, v uint64, _ []byte) error {
				switch f {
				case 1:
					id = v
				case 2:
					name = v
				}
				return nil
			})
			functions[id] = name
			return err
		case 6:
			names = append(names, string(sub))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("CPU profile: %w", err)
	}
	var stacks []stack
	for _, s := range samples {
		if len(s[1]) < 2 {
			return nil, errors.New("CPU profile: a sample without CPU time")
		}
		st := stack{nanos: int64(s[1][1])}
		for _, l := range s[0] {
			for _, f := range locations[l] {
				if i := functions[f]; i < uint64(len(names)) {
					st.functions = append(st.functions, names[i])
				}
			}
		}
		stacks = append(stacks, st)
	}
	return stacks, nil
}

// eachField calls f for the fields of a message: with a number, or with the bytes of a longer field.
func eachField(b []byte, f func(field protowire.Number, v uint64, sub []byte) error) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var v uint64
		var sub []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			sub, n = protowire.ConsumeBytes(b)
			if sub == nil {
				sub = []byte{}
			}
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := f(field, v, sub); err != nil {
			return err
		}
	}
	return nil
}

// share is the part of the CPU time that went to one layer or function.
type share struct {
	Name string  `json:"name"`
	Part float64 `json:"part"` // of 1
}

// module is the prefix of the names of this program's functions.
const module = "github.com/causalstore/causalstore/sidecar/"

// layerOf says whose time a sample is: the collector's, the scheduler's, a system call's, an allocation's; else that of the
// innermost package which is not the runtime, so that copies, maps and locks count for whoever used them.
func layerOf(functions []string) string {
	for _, f := range functions {
		switch f {
		case "runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart", "runtime.gcMarkDone":
			return "GC"
		}
	}
	for _, f := range functions {
		switch {
		case strings.HasPrefix(f, "internal/runtime/syscall.") || strings.HasPrefix(f, "syscall.") || strings.HasPrefix(f, "runtime/internal/syscall."):
			return syscallLayer(functions)
		case f == "runtime.mallocgc" || f == "runtime.growslice" || f == "runtime.newobject":
			return "allocation"
		case f == "runtime.schedule" || f == "runtime.mcall" || f == "runtime.park_m" || f == "runtime.mstart" || f == "runtime.morestack" ||
			f == "runtime.goready" || f == "runtime.ready" || f == "runtime.gosched_m" || f == "runtime.sysmon":
			return "scheduler"
		}
		if layer := packageLayer(f); layer != "" {
			return layer
		}
	}
	return "runtime"
}

func syscallLayer(functions []string) string {
	for _, f := range functions {
		switch {
		case strings.HasPrefix(f, module+"wal"):
			return "log syscalls"
		case strings.HasPrefix(f, module+"storage") || strings.Contains(f, "redis/go-redis"):
			return "storage syscalls"
		case f == "runtime.findRunnable" || f == "runtime.netpoll":
			return "scheduler"
		case strings.HasPrefix(f, module+"resp"):
			return "client socket syscalls"
		}
	}
	return "other syscalls"
}

func packageLayer(f string) string {
	if rest, ok := strings.CutPrefix(f, module); ok {
		name, _, _ := strings.Cut(rest, ".")
		name, _, _ = strings.Cut(name, "/")
		return name
	}
	switch {
	case strings.Contains(f, "redis/go-redis") || strings.Contains(f, "cockroachdb/pebble"):
		return "storage"
	case strings.HasPrefix(f, "net.") || strings.HasPrefix(f, "internal/poll."):
		return "net"
	case strings.HasPrefix(f, "sync.") || strings.HasPrefix(f, "internal/sync."):
		return "" // counts for the caller
	}
	return ""
}

// shares sums a profile up by layer and by leaf function, greatest first.
func shares(stacks []stack, functions int) (layers, leaves []share, total int64) {
	byLayer, byLeaf := map[string]int64{}, map[string]int64{}
	for _, s := range stacks {
		total += s.nanos
		byLayer[layerOf(s.functions)] += s.nanos
		if len(s.functions) > 0 {
			byLeaf[strings.TrimPrefix(s.functions[0], module)] += s.nanos
		}
	}
	layers, leaves = ranked(byLayer, total), ranked(byLeaf, total)
	return layers, leaves[:min(functions, len(leaves))], total
}

func ranked(sums map[string]int64, total int64) []share {
	all := make([]share, 0, len(sums))
	for name, n := range sums {
		all = append(all, share{name, float64(n) / float64(max(total, 1))})
	}
	slices.SortFunc(all, func(a, b share) int {
		if a.Part != b.Part {
			if a.Part > b.Part {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}
