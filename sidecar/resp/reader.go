package resp

const (
	// readBytes is the first size of a read buffer, as in Redis.
	readBytes = 16 << 10
	// retainBytes is the largest buffer that an idle connection keeps.
	retainBytes = 256 << 10
)

// reader cuts commands out of a buffer that its owner fills. The arguments it hands out lie in the buffer: they are valid
// until room is called. It allocates nothing per command.
type reader struct {
	lim     *Limits
	trusted bool // false until the client has authenticated

	buf []byte // received
	pos int    // buf[pos:] belongs to commands not handed out yet

	cur    frame
	ahead  frame // used by following
	args   [][]byte
	text   []byte // words of an inline command
	excess excess
}

func newReader(lim *Limits) *reader {
	r := &reader{lim: lim}
	r.cur.reset()
	return r
}

// next returns the next complete command, or no arguments if more bytes are needed. If the command was over a limit,
// r.excess says so and only its name, at most, is among the arguments. After an error the stream makes no sense any more.
func (r *reader) next() ([][]byte, error) {
	for {
		p, err := r.cur.parse(r.buf[r.pos:], r.lim, r.trusted)
		switch {
		case err != nil:
			return nil, err
		case p == incomplete:
			return nil, nil
		case p == discard:
			r.discard()
			if r.cur.drop > 0 {
				return nil, nil
			}
			continue
		}
		if err := r.take(); err != nil {
			return nil, err
		}
		if len(r.args) > 0 || r.excess.limit != withinLimits {
			return r.args, nil
		}
	}
}

// take makes the arguments of the frame that is complete and steps over it.
func (r *reader) take() error {
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

// discard takes away what has arrived of an argument that is not kept.
func (r *reader) discard() {
	at := r.pos + r.cur.at
	n := min(r.cur.drop, len(r.buf)-at)
	r.buf = append(r.buf[:at], r.buf[at+n:]...)
	r.cur.drop -= n
}

// buffered returns the number of bytes behind the command that was handed out last.
func (r *reader) buffered() int { return len(r.buf) - r.pos }

// following calls f with the key of each GET that follows in the buffer, up to the first other command.
func (r *reader) following(limit int, f func(key []byte)) {
	at := r.pos
	for range limit {
		r.ahead.reset()
		p, err := r.ahead.parse(r.buf[at:], r.lim, r.trusted)
		if err != nil || p != complete || len(r.ahead.spans) != 2 {
			return
		}
		name, key := r.ahead.spans[0], r.ahead.spans[1]
		if !equalFold(r.buf[at+name.from:at+name.to], "get") || key.to-key.from > r.lim.MaxKeyBytes {
			return
		}
		f(r.buf[at+key.from : at+key.to])
		at += r.ahead.at
	}
}

// room returns free space for received bytes; received must be called next. Arguments handed out become invalid.
func (r *reader) room() []byte {
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
	return r.moreRoom()
}

// moreRoom is room that leaves handed out arguments valid.
func (r *reader) moreRoom() []byte {
	if cap(r.buf)-len(r.buf) < readBytes/4 {
		grown := make([]byte, r.buffered(), max(readBytes, 2*r.buffered()))
		copy(grown, r.buf[r.pos:])
		r.buf, r.pos = grown, 0
	}
	return r.buf[len(r.buf):cap(r.buf)]
}

// received adds n bytes that were put into the room.
func (r *reader) received(n int) { r.buf = r.buf[:len(r.buf)+n] }
