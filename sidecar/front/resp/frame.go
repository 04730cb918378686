package resp

import "bytes"

// span is the position of one argument, relative to the start of its frame.
type span struct{ from, to int }

// maxNameBytes is the longest command name that is stored for a command over a limit.
const maxNameBytes = 128

// tlsHandshake is the first byte of what a client sends that uses TLS. No command begins with it.
const tlsHandshake = 0x16

// parseResult says what the parser of a frame needs next.
type parseResult uint8

const (
	incomplete   parseResult = iota // more bytes are needed
	complete                        // frame.at is the end of the frame
	dropArgument                    // the reader must remove frame.drop bytes at frame.at
)

// excess says which limit a command exceeds. Such a command is read to its end without being stored, so that the
// connection can continue.
type excess struct {
	limit excessLimit
	arg   int // position of the argument, for overValue
	n     int // its length, or the number of arguments
}

type excessLimit uint8

const (
	withinLimits excessLimit = iota
	overValue
	overArgs
	overCommand
)

// frame parses one command incrementally, without reading any byte twice. Clients send multibulk frames; anything that
// does not begin with '*' is a line of words, an inline command.
type frame struct {
	at     int // first byte not parsed yet
	argc   int // number of arguments; 0 until the header is parsed
	bulk   int // length of the current argument, or -1 until its header is parsed
	size   int // sum of the lengths of the arguments so far
	drop   int // with dropArgument: bytes to remove
	seen   int // arguments received or dropped
	inline bool
	excess excess
	spans  []span
}

func (f *frame) reset() {
	*f = frame{bulk: -1, spans: f.spans[:0]}
}

// parse continues with the frame that starts at b[0]. A client that is not authenticated may send only small commands.
func (f *frame) parse(b []byte, lim *Limits, authenticated bool) (parseResult, error) {
	if f.drop > 0 {
		return dropArgument, nil
	}
	if f.argc == 0 {
		if p, err := f.header(b, lim, authenticated); p != incomplete || err != nil || f.argc == 0 {
			return p, err
		}
	}
	for f.seen < f.argc {
		if f.bulk < 0 {
			p, err := f.bulkHeader(b, lim, authenticated)
			if p == dropArgument || err != nil || f.bulk < 0 {
				return p, err
			}
		}
		if len(b)-f.at < f.bulk+2 {
			return incomplete, nil
		}
		f.spans = append(f.spans, span{f.at, f.at + f.bulk})
		f.at += f.bulk + 2 // like Redis, do not check the line break
		f.seen++
		f.bulk = -1
	}
	return complete, nil
}

// header parses "*argc", or finds the end of an inline command. An empty frame is complete and has no arguments.
func (f *frame) header(b []byte, lim *Limits, authenticated bool) (parseResult, error) {
	if len(b) == 0 {
		return incomplete, nil
	}
	if b[0] != '*' {
		if b[0] == tlsHandshake {
			return incomplete, errTLS
		}
		end := bytes.IndexByte(b[f.at:], '\n')
		if end < 0 && len(b) > lim.MaxInlineBytes || f.at+end > lim.MaxInlineBytes {
			return incomplete, errInlineLine
		}
		if end < 0 {
			f.at = len(b)
			return incomplete, nil
		}
		f.inline = true
		f.at += end + 1
		return complete, nil
	}
	n, next, ok := lengthLine(b, 0)
	switch {
	case next == 0 && len(b) > lim.MaxInlineBytes:
		return incomplete, errMultibulkLine
	case next == 0:
		return incomplete, nil
	case !ok || n > 1<<31-1:
		return incomplete, errMultibulkLength
	case n > 10 && !authenticated:
		return incomplete, errMultibulkUnauthenticated
	}
	f.at = next
	if n <= 0 {
		return complete, nil
	}
	f.argc = int(n)
	if f.argc > lim.MaxArgs {
		f.excess = excess{limit: overArgs, n: f.argc}
	}
	return incomplete, nil
}

// maxBulkBytes is Redis' own limit for one argument, proto-max-bulk-len.
const maxBulkBytes = 512 << 20

// bulkHeader parses "$length". Once the command exceeds a limit, arguments are dropped together with their headers, so
// that memory does not grow with what the client continues to send; only the command's name is stored.
func (f *frame) bulkHeader(b []byte, lim *Limits, authenticated bool) (parseResult, error) {
	n, next, ok := lengthLine(b, f.at)
	switch {
	case next == 0 && len(b)-f.at > lim.MaxInlineBytes:
		return incomplete, errBulkLine
	case next == 0:
		return incomplete, nil
	case b[f.at] != '$':
		return incomplete, protocolError("expected '$', got '" + string(b[f.at:f.at+1]) + "'")
	case !ok || n < 0 || n > maxBulkBytes:
		return incomplete, errBulkLength
	case n > 16384 && !authenticated:
		return incomplete, errBulkUnauthenticated
	}
	length := int(n)
	f.size += length
	if f.excess.limit == withinLimits {
		switch {
		case length > lim.MaxValueBytes:
			f.excess = excess{limit: overValue, arg: f.seen, n: length}
		case f.size > lim.MaxCommandBytes:
			f.excess = excess{limit: overCommand}
		}
	}
	if f.excess.limit != withinLimits && (f.seen > 0 || length > maxNameBytes) {
		f.drop = next - f.at + length + 2
		f.seen++
		return dropArgument, nil
	}
	f.at = next
	f.bulk = length
	return incomplete, nil
}

// lengthLine parses a type byte and a number, terminated by a line break. next is 0 if the line is incomplete.
func lengthLine(b []byte, from int) (n int64, next int, ok bool) {
	line := b[from:]
	if len(line) > 3 && line[2] == '\r' && line[1] >= '0' && line[1] <= '9' { // true for nearly every command
		return int64(line[1] - '0'), from + 4, true
	}
	end := bytes.IndexByte(line, '\r')
	switch {
	case end < 0 || end+1 >= len(line):
		return 0, 0, false
	case end == 0:
		return 0, from + 2, false
	}
	n, ok = parseInt(line[1:end])
	return n, from + end + 2, ok
}
