package history

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Writer writes a history as JSON lines. It is safe for concurrent use. After an error it writes nothing more.
type Writer struct {
	mu   sync.Mutex
	w    *bufio.Writer
	line []byte
	err  error
}

// NewWriter returns a writer that buffers: Flush it at the end.
func NewWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriterSize(w, 1<<16)} }

// Write adds a finished operation. The operations of a process must be written in its order.
func (w *Writer) Write(op *Op) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	line, err := AppendJSON(w.line[:0], op)
	if err != nil {
		return err
	}
	w.line = append(line, '\n')
	_, w.err = w.w.Write(w.line)
	return w.err
}

// Flush writes all buffered operations to the underlying writer.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.w.Flush()
	}
	return w.err
}

// AppendJSON appends the line of an operation without the line break. JSON cannot represent text that is not UTF-8.
func AppendJSON(b []byte, op *Op) ([]byte, error) {
	if op.Kind < Get || op.Kind > Commit {
		return b, fmt.Errorf("write operation: unknown kind %d", op.Kind)
	}
	e := encoder{b: append(b, `{"session":`...)}
	e.text(op.Session)
	e.optional("process", op.Process)
	e.optional("dc", op.DC)
	if op.Level != causal.DefaultLevel {
		e.field("level", op.Level.String())
	}
	e.b = append(e.b, `,"op":"`+op.Kind.String()+`"`...)
	switch op.Kind {
	case Put, Delete, Add:
		e.field("key", op.Key)
		if op.Kind != Delete {
			e.field("value", op.Value)
		}
		e.version(op.Version)
	case Get:
		e.field("key", op.Key)
		if op.OK {
			e.outcome(Read{Value: op.Value, Missing: op.Missing, Version: op.Version, Parts: op.Parts})
		}
	case Update:
		e.field("key", op.Key)
		e.command(op.Command)
		if op.OK {
			e.outcome(Read{Value: op.Value, Missing: op.Missing, Version: op.Version})
		}
	case MGet:
		e.reads("reads", op.Reads, op.OK)
	case Commit:
		e.reads("reads", op.Reads, op.OK)
		e.reads("writes", op.Writes, true)
		e.version(op.Version)
	case Token, Resume:
		e.field("token", op.Token)
	}
	e.b = strconv.AppendInt(append(e.b, `,"start":`...), op.Start, 10)
	e.b = strconv.AppendInt(append(e.b, `,"end":`...), op.End, 10)
	e.b = strconv.AppendBool(append(e.b, `,"ok":`...), op.OK)
	e.flag("unknown", op.Unknown)
	e.flag("apart", op.Apart)
	e.flag("final", op.Final)
	e.flag("inFlight", op.InFlight)
	if op.Source != "" {
		e.field("source", op.Source)
	}
	if e.bad != "" {
		return b, fmt.Errorf("write operation: %q is not UTF-8, which JSON cannot represent; record only text", e.bad)
	}
	return append(e.b, '}'), nil
}

type encoder struct {
	b   []byte
	bad string
}

func (e *encoder) outcome(r Read) {
	switch {
	case r.Missing:
		e.flag("missing", true)
	case len(r.Parts) > 0:
		e.parts(r.Parts)
	default:
		e.field("value", r.Value)
	}
	e.version(r.Version)
}

// reads appends a list of keys, with what was found or written.
func (e *encoder) reads(name string, reads []Read, known bool) {
	e.b = append(append(append(e.b, `,"`...), name...), `":[`...)
	for i := range reads {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.b = append(e.b, `{"key":`...)
		e.text(reads[i].Key)
		if known {
			e.outcome(reads[i])
		}
		e.b = append(e.b, '}')
	}
	e.b = append(e.b, ']')
}

func (e *encoder) command(words []string) {
	e.b = append(e.b, `,"command":[`...)
	for i, word := range words {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.text(word)
	}
	e.b = append(e.b, ']')
}

func (e *encoder) parts(parts []Part) {
	e.b = append(e.b, `,"parts":[`...)
	for i, p := range parts {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.b = append(e.b, `{"value":`...)
		e.text(p.Value)
		e.version(p.Version)
		e.b = append(e.b, '}')
	}
	e.b = append(e.b, ']')
}

func (e *encoder) version(v causal.Version) {
	if !v.IsZero() {
		e.b = append(appendVersion(append(e.b, `,"version":"`...), v), '"')
	}
}

func (e *encoder) flag(name string, set bool) {
	if set {
		e.b = append(append(append(e.b, `,"`...), name...), `":true`...)
	}
}

func (e *encoder) optional(name, s string) {
	if s != "" {
		e.field(name, s)
	}
}

func (e *encoder) field(name, s string) {
	e.b = append(append(append(e.b, `,"`...), name...), `":`...)
	e.text(s)
}

func (e *encoder) text(s string) {
	const hex = "0123456789abcdef"
	if e.bad == "" && !utf8.ValidString(s) {
		e.bad = s
	}
	e.b = append(e.b, '"')
	plain := 0
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			e.b = append(e.b, s[plain:i]...)
			plain = i + 1
			if c < ' ' {
				e.b = append(e.b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			} else {
				e.b = append(e.b, '\\', c)
			}
		}
	}
	e.b = append(append(e.b, s[plain:]...), '"')
}
