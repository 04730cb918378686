package resp

const (
	// readBytes is the initial size of a read buffer, as in Redis.
	readBytes = 16 << 10
	// retainBytes is the size of the largest buffer that an idle connection keeps.
	retainBytes = 256 << 10
)

// reader splits the bytes that its owner puts into its buffer into commands. The arguments it returns alias the buffer:
// they are valid until reserve is called. It does not allocate per command.
type reader struct {
	limits *Limits
	// authenticated is false until the client has authenticated. Until then only small commands are accepted.
	authenticated bool

	buf []byte // received
	pos int    // buf[pos:] belongs to commands that next has not returned yet

	cur    frame
	ahead  frame // used by peekGetKeys
	args   [][]byte
	text   []byte // words of an inline command
	excess excess
}

func newReader(lim *Limits) *reader {
	r := &reader{limits: lim}
	r.cur.reset()
	return r
}

// next returns the next complete command, or no arguments if more bytes are needed. If the command exceeds a limit,
// r.excess says which one, and the arguments are at most its name. After an error the stream cannot be parsed further.
func (r *reader) next() ([][]byte, error) {
	for {
		p, err := r.cur.parse(r.buf[r.pos:], r.limits, r.authenticated)
		switch {
		case err != nil:
			return nil, err
		case p == incomplete:
			return nil, nil
		case p == dropArgument:
			r.dropArgument()
			if r.cur.drop > 0 {
				return nil, nil
			}
			continue
		}
		if err := r.consumeFrame(); err != nil {
			return nil, err
		}
		if len(r.args) > 0 || r.excess.limit != withinLimits {
			return r.args, nil
		}
	}
}

// midCommand reports whether a part of a command was received, and not the rest.
func (r *reader) midCommand() bool { return r.buffered() > 0 || r.cur.drop > 0 }

// consumeFrame sets args to the arguments of the complete frame, and moves past it.
func (r *reader) consumeFrame() error {
	from, spans := r.buf[r.pos:], r.cur.spans
	if r.cur.inline {
		line := from[:r.cur.at-1]
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		var err error
		r.text, spans, err = splitWords(line, r.text[:0], spans)
		if err != nil {
			return err
		}
		from = r.text
	}
	r.args = r.args[:0]
	for _, s := range spans {
		r.args = append(r.args, from[s.from:s.to:s.to])
	}
	r.pos += r.cur.at
	r.excess = r.cur.excess
	r.cur.spans = spans
	r.cur.reset()
	return nil
}

// dropArgument removes the received bytes of an argument that is not stored.
func (r *reader) dropArgument() {
	at := r.pos + r.cur.at
	n := min(r.cur.drop, len(r.buf)-at)
	r.buf = append(r.buf[:at], r.buf[at+n:]...)
	r.cur.drop -= n
}

// buffered returns the number of bytes after the command that next returned last.
func (r *reader) buffered() int { return len(r.buf) - r.pos }

// peekGetKeys calls f with the keys of the GETs at the head of the buffer, up to limit or the first other command.
func (r *reader) peekGetKeys(limit int, f func(key []byte)) {
	at := r.pos
	for range limit {
		r.ahead.reset()
		p, err := r.ahead.parse(r.buf[at:], r.limits, r.authenticated)
		if err != nil || p != complete || len(r.ahead.spans) != 2 {
			return
		}
		name, key := r.ahead.spans[0], r.ahead.spans[1]
		if !equalFold(r.buf[at+name.from:at+name.to], "get") || key.to-key.from > r.limits.MaxKeyBytes {
			return
		}
		f(r.buf[at+key.from : at+key.to])
		at += r.ahead.at
	}
}

// compact frees what next has returned: it invalidates the arguments.
func (r *reader) compact() {
	if r.pos == len(r.buf) {
		r.pos, r.buf = 0, r.buf[:0]
		if cap(r.buf) > retainBytes {
			r.buf = nil
		}
		if cap(r.args) > retainBytes/16 {
			r.args, r.cur.spans = nil, nil
		}
	}
	if cap(r.buf)-len(r.buf) < readBytes/4 && r.pos > 0 {
		r.buf = r.buf[:copy(r.buf, r.buf[r.pos:])]
		r.pos = 0
	}
}

// growth returns the size of the buffer that reserve is going to allocate, or 0. A buffer grows by the double, but not
// beyond the end of an argument whose length is known.
func (r *reader) growth() int {
	const least = readBytes / 4
	if cap(r.buf)-len(r.buf) >= least {
		return 0
	}
	n := 2 * r.buffered()
	if r.cur.bulk >= 0 {
		end := r.cur.at + r.cur.bulk + 2
		if len(r.buf) < cap(r.buf) && r.pos+end <= cap(r.buf) {
			return 0 // the rest of the argument has room
		}
		n = min(n, max(end, r.buffered()+least))
	}
	return max(readBytes, n)
}

// reserve returns free space for received bytes; commit must be called next. It invalidates the arguments that next
// returned.
func (r *reader) reserve() []byte {
	r.compact()
	return r.reserveKeepingArgs()
}

// reserveKeepingArgs is reserve for the time during which a command executes: it leaves arguments valid.
func (r *reader) reserveKeepingArgs() []byte {
	if size := r.growth(); size > 0 {
		grown := make([]byte, r.buffered(), size)
		copy(grown, r.buf[r.pos:])
		r.buf, r.pos = grown, 0
	}
	return r.buf[len(r.buf):cap(r.buf)]
}

// commit adds the n bytes that were put into the reserved space.
func (r *reader) commit(n int) { r.buf = r.buf[:len(r.buf)+n] }
