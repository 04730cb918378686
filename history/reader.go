package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// maxLineBytes bounds a line of a history.
const maxLineBytes = 64 << 20

// Reader reads JSON lines. Its errors give the line number, from 1, and what is wrong with the line.
type Reader struct {
	lines *bufio.Scanner
	line  int
	seen  map[string]string
}

// NewReader returns a reader of a history.
func NewReader(r io.Reader) *Reader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 1<<16), maxLineBytes)
	return &Reader{lines: s, seen: make(map[string]string)}
}

// Next returns the next operation, and io.EOF after the last one. It skips empty lines.
func (r *Reader) Next() (Op, error) {
	for r.lines.Scan() {
		r.line++
		text := bytes.TrimSpace(r.lines.Bytes())
		if len(text) == 0 {
			continue
		}
		op, err := r.parse(text)
		if err != nil {
			return Op{}, fmt.Errorf("line %d: %w", r.line, err)
		}
		return op, nil
	}
	err := r.lines.Err()
	switch {
	case err == nil:
		return Op{}, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return Op{}, fmt.Errorf("line %d: longer than %d bytes", r.line+1, maxLineBytes)
	default:
		return Op{}, fmt.Errorf("line %d: %w", r.line+1, err)
	}
}

// ReadAll reads a whole history.
func ReadAll(r io.Reader) (History, error) {
	var h History
	in := NewReader(r)
	for {
		op, err := in.Next()
		if errors.Is(err, io.EOF) {
			return h, nil
		}
		if err != nil {
			return nil, err
		}
		h = append(h, op)
	}
}

type jsonRead struct {
	Key     *string `json:"key"`
	Value   *string `json:"value"`
	Version string  `json:"version"`
	Missing bool    `json:"missing"`
	Parts   []struct {
		Value   string `json:"value"`
		Version string `json:"version"`
	} `json:"parts"`
}

type jsonOp struct {
	Session string `json:"session"`
	Process string `json:"process"`
	DC      string `json:"dc"`
	Op      string `json:"op"`
	jsonRead
	Reads   []jsonRead `json:"reads"`
	Writes  []jsonRead `json:"writes"`
	Token   string     `json:"token"`
	Command []string   `json:"command"`
	Level   string     `json:"level"`
	Start   *int64     `json:"start"`
	End     *int64     `json:"end"`
	OK      *bool      `json:"ok"`
	Unknown bool       `json:"unknown"`
	Final   bool       `json:"final"`
	Apart   bool       `json:"apart"`
	Flight  bool       `json:"inFlight"`
	Source  string     `json:"source"`
}

func (r *Reader) parse(text []byte) (Op, error) {
	var in jsonOp
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return Op{}, fmt.Errorf("not a JSON object of an operation: %w", err)
	}
	if d.More() {
		return Op{}, errors.New("more than one JSON value")
	}
	op := Op{Session: r.shared(in.Session), Process: r.shared(in.Process), DC: r.shared(in.DC), Token: in.Token,
		Unknown: in.Unknown, Final: in.Final, Apart: in.Apart, InFlight: in.Flight,
		Source: r.shared(in.Source)}
	switch {
	case in.Session == "":
		return Op{}, errors.New(`"session" is missing`)
	case in.Start == nil || in.End == nil:
		return Op{}, errors.New(`"start" or "end" is missing: give both in nanoseconds`)
	case in.OK == nil && !in.Unknown:
		return Op{}, errors.New(`"ok" is missing: give "ok":true, "ok":false, or "unknown":true`)
	}
	if in.Level != "" {
		var known bool
		if op.Level, known = causal.ParseName(in.Level, causal.Levels()); !known {
			return Op{}, fmt.Errorf(`"level" is %q; it must be %s`, in.Level, causal.JoinNames(causal.Levels()))
		}
	}
	op.Start, op.End = *in.Start, *in.End
	op.OK = in.OK != nil && *in.OK
	for k := Get; k <= Commit; k++ {
		if in.Op == k.String() {
			op.Kind = k
		}
	}
	var err error
	switch op.Kind {
	case Put, Delete, Add:
		if in.Key == nil || op.Kind != Delete && in.Value == nil {
			return Op{}, fmt.Errorf(`a %s needs "key"%s`, op.Kind,
				map[OpKind]string{Put: ` and "value"`, Add: ` and "value"`}[op.Kind])
		}
		op.Key = r.shared(*in.Key)
		if op.Kind != Delete {
			op.Value = *in.Value
		}
		op.Version, err = optionalVersion(in.Version)
	case Get:
		var e Read
		e, err = r.read(&in.jsonRead, op.OK)
		op.Key, op.Value, op.Missing, op.Version, op.Parts = e.Key, e.Value, e.Missing, e.Version, e.Parts
	case Update:
		if in.Key == nil || len(in.Command) == 0 {
			return Op{}, errors.New(`an update needs "key", and "command" without the key`)
		}
		var reply Read
		reply, err = r.read(&in.jsonRead, op.OK)
		op.Key, op.Command, op.Value, op.Missing, op.Version = reply.Key, in.Command, reply.Value, reply.Missing,
			reply.Version
	case MGet:
		if in.Reads == nil {
			return Op{}, errors.New(`an mget needs "reads"`)
		}
		op.Reads, err = r.reads("reads", in.Reads, op.OK)
	case Commit:
		if len(in.Writes) == 0 {
			return Op{}, errors.New(`a commit needs "writes"`)
		}
		var wrong, bad error
		op.Reads, err = r.reads("reads", in.Reads, op.OK)
		op.Writes, wrong = r.reads("writes", in.Writes, true)
		op.Version, bad = optionalVersion(in.Version)
		err = errors.Join(err, wrong, bad)
	case Token, Resume:
		if op.Token == "" {
			err = fmt.Errorf(`a %s needs "token"`, op.Kind)
		}
	default:
		err = fmt.Errorf(`"op" is %q; it must be get, put, add, delete, mget, update, commit, token or resume`, in.Op)
	}
	return op, err
}

// reads returns a list of keys, with what was found or written if that is known.
func (r *Reader) reads(name string, in []jsonRead, known bool) (out []Read, err error) {
	if len(in) > 0 {
		out = make([]Read, len(in))
	}
	for i := range in {
		var one error
		if out[i], one = r.read(&in[i], known); one != nil {
			err = errors.Join(err, fmt.Errorf("%s[%d]: %w", name, i, one))
		}
	}
	return out, err
}

func (r *Reader) read(in *jsonRead, ok bool) (Read, error) {
	if in.Key == nil {
		return Read{}, errors.New(`"key" is missing`)
	}
	out := Read{Key: r.shared(*in.Key), Missing: in.Missing}
	if !ok {
		return out, nil
	}
	if given := len(in.Parts) > 0; given && (in.Value != nil || in.Missing) ||
		!given && (in.Value != nil) == in.Missing {
		return Read{}, errors.New(`give either "value" or "missing":true, or the "parts" of a value that merges`)
	}
	for _, p := range in.Parts {
		v, err := optionalVersion(p.Version)
		if err != nil {
			return Read{}, err
		}
		out.Parts = append(out.Parts, Part{p.Value, v})
	}
	if in.Value != nil {
		out.Value = *in.Value
	}
	var err error
	out.Version, err = optionalVersion(in.Version)
	return out, err
}

func optionalVersion(s string) (causal.Version, error) {
	if s == "" {
		return causal.Version{}, nil
	}
	return ParseVersion(s)
}

// maxShared bounds the number of strings that operations share.
const maxShared = 1 << 20

// shared returns one copy of equal names, which a history repeats on every line.
func (r *Reader) shared(s string) string {
	if kept, ok := r.seen[s]; ok {
		return kept
	}
	if len(r.seen) < maxShared {
		r.seen[s] = s
	}
	return s
}
