package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/lab/load"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/command"
)

// targets returns the selected endpoints.
func (f *loadFlags) targets() ([]load.Endpoint, error) {
	var all []load.Endpoint
	number := map[string]int{}
	add := func(dc, addr string) {
		name := dc
		if number[dc]++; number[dc] > 1 {
			name = fmt.Sprintf("%s/%d", dc, number[dc])
		}
		all = append(all, load.Endpoint{Name: name, Addr: addr, DataCenter: dc})
	}
	if f.endpointsFile != "" {
		b, err := os.ReadFile(f.endpointsFile)
		if err != nil {
			return nil, fmt.Errorf("read endpoints: %w", err)
		}
		var ends local.Endpoints
		if err := json.Unmarshal(b, &ends); err != nil {
			return nil, fmt.Errorf("read endpoints %s: %w", f.endpointsFile, err)
		}
		for _, e := range ends.DataCenters {
			if len(e.Sidecars) == 0 { // written by an earlier version
				e.Sidecars = []string{e.RESP}
			}
			for _, addr := range e.Sidecars {
				add(e.Name, addr)
			}
		}
	}
	for _, e := range f.endpoints {
		name, addr, ok := strings.Cut(e, "=")
		if !ok {
			addr = name
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("--endpoint %q: use host:port or name=host:port", e)
		}
		add(name, addr)
	}
	if len(all) == 0 {
		return nil, errors.New("no endpoint: give --endpoint host:port or --endpoints-file")
	}
	if len(f.only) == 0 {
		return all, nil
	}
	for _, name := range f.only {
		if number[name] == 0 {
			return nil, fmt.Errorf("--only: unknown endpoint %q", name)
		}
	}
	return slices.DeleteFunc(all, func(e load.Endpoint) bool { return !slices.Contains(f.only, e.DataCenter) }), nil
}

// recording is the destination of the history. The zero recording has none.
type recording struct {
	io.Writer
	path   string // empty: no recording
	stream io.Writer
	file   *os.File
	keep   bool
}

// recording opens the file of --record; --check alone uses a temporary file.
func (f *loadFlags) recording(out io.Writer) (*recording, error) {
	switch {
	case f.record == "-" && f.check:
		return nil, errors.New("--check reads the recorded history: give --record a file, not -")
	case f.record == "-":
		return &recording{Writer: out, path: "-", stream: out}, nil
	case f.record == "" && !f.check:
		return &recording{}, nil
	}
	var file *os.File
	var err error
	if f.record != "" {
		file, err = os.Create(f.record)
	} else {
		file, err = os.CreateTemp("", "causalstore-history-*.jsonl")
	}
	if err != nil {
		return nil, fmt.Errorf("record history: %w", err)
	}
	return &recording{Writer: file, path: file.Name(), file: file, keep: f.record != ""}, nil
}

// violationsShown is how many violations of a promise --check shows. The history that is kept has the others.
const violationsShown = 10

// verdict checks the recorded history, and keeps it if it has violations.
func (r *recording) verdict(out io.Writer, result *load.Result, promise load.Promise) (verdict, err error) {
	h, err := readHistory(r.path, nil)
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(out)
	ok, err := judge(out, "history", h, promise, violationsShown)
	if err != nil {
		return nil, err
	}
	if ok && (result.Final == nil || result.Final.Settled()) {
		return nil, nil
	}
	if !r.keep {
		r.keep = true
		fmt.Fprintf(out, "the history is in %s\n", r.path)
	}
	return command.ErrSilent, nil
}

func (r *recording) close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	if !r.keep {
		err = errors.Join(err, os.Remove(r.path))
	}
	return err
}
