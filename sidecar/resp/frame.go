package resp

import "bytes"

// span is one argument: its bytes, counted from the start of its frame.
type span struct{ from, to int }

// maxNameBytes is the longest command name that is kept of a command over a limit.
const maxNameBytes = 128

// progress is where the parser of a frame stands.
type progress uint8

const (
	incomplete progress = iota // more bytes are needed
	complete                   // frame.at is the end of the frame
	discard                    // the reader must take frame.drop bytes at frame.at away
)

// excess says which limit a command is over. It is received to its end, without being kept, so that the connection survives.
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

// frame parses one command as its bytes arrive, and never looks at a byte twice. A multibulk frame is the form that clients
// send; anything that does not begin with '*' is a line of words (inline).
type frame struct {
	at     int // first byte not parsed yet
	argc   int // arguments announced; 0 while the header is missing
	bulk   int // length of the argument being received, or -1 while its header is missing
	size   int // bytes of all arguments announced so far
	drop   int // with discard: bytes to take away
	seen   int // arguments received or dropped
	inline bool
	excess excess
	spans  []span
}

func (f *frame) reset() {
	*f = frame{bulk: -1, spans: f.spans[:0]}
}

// parse goes on with the frame that starts at b[0]. Until a client is trusted it may send only small commands.
func (f *frame) parse(b []byte, lim *Limits, trusted bool) (progress, error) {
	if f.drop > 0 {
		return discard, nil
	}
	if f.argc == 0 {
		if p, err := f.header(b, lim, trusted); p != incomplete || err != nil || f.argc == 0 {
			return p, err
		}
	}
	for f.seen < f.argc {
		if f.bulk < 0 {
			p, err := f.bulkHeader(b, lim, trusted)
			if p == discard || err != nil || f.bulk < 0 {
				return p, err
			}
		}
		if len(b)-f.at < f.bulk+2 {
			return incomplete, nil
		}
		f.spans = append(f.spans, span{f.at, f.at + f.bulk})
		f.at += f.bulk + 2 // Redis does not look at the line break either
		f.seen++
		f.bulk = -1
	}
	return complete, nil
}

// header parses "*argc", or finds the end of an inline command. An empty frame is complete, with no argument.
func (f *frame) header(b []byte, lim *Limits, trusted bool) (progress, error) {
	if len(b) == 0 {
		return incomplete, nil
	}
	if b[0] != '*' {
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
	case n > 10 && !trusted:
		return incomplete, errMultibulkUnauthorised
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

// bulkHeader parses "$length". The argument of a command that is over a limit is taken away with its header, so that
// what is held does not grow with what the client goes on to send; only the command's name is kept.
func (f *frame) bulkHeader(b []byte, lim *Limits, trusted bool) (progress, error) {
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
	case n > 16384 && !trusted:
		return incomplete, errBulkUnauthorised
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
		return discard, nil
	}
	f.at = next
	f.bulk = length
	return incomplete, nil
}

// lengthLine parses a type byte and a number, ended by a line break. next is 0 if the line is not complete yet.
func lengthLine(b []byte, from int) (n int64, next int, ok bool) {
	line := b[from:]
	if len(line) > 3 && line[2] == '\r' && line[1] >= '0' && line[1] <= '9' { // as in nearly every command
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
