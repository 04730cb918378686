package resp

import (
	"bytes"
	"math"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/value"
)

var (
	errGroupOfRead = genericError("The GROUP option is only supported by XREADGROUP. You called XREAD instead.")
	errNoAckOfRead = genericError("The NOACK option is only supported by XREADGROUP. You called XREAD instead.")
	errNoGroup     = genericError("Missing GROUP option for XREADGROUP")
	errDollar      = genericError("The $ ID is meaningless in the context of XREADGROUP: you want to read the " +
		"history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would " +
		"just return an empty result set.")
	errGreater = genericError("The > ID can be specified only when calling XREADGROUP using the GROUP <group> " +
		"<consumer> option.")
	errUnbalanced = genericError("Unbalanced XREAD list of streams: for each stream key an ID or '$' must be " +
		"specified.")
	errTimeout        = genericError("timeout is not an integer or out of range")
	errTimeoutBelow0  = genericError("timeout is negative")
	errStreamsMissing = errSyntax
)

// streamRead is what XREAD or XREADGROUP asks for.
type streamRead struct {
	isGroup         bool
	group, consumer string
	noAck           bool
	// waits says that the client waits for entries, timeout for how long at most; 0: for ever.
	waits     bool
	timeout   time.Duration
	count     int // 0: all
	keys, ids [][]byte
}

func parseStreamRead(args [][]byte, isGroup bool) (r streamRead, err error) {
	r.isGroup = isGroup
	hasGroup := false
	i := 1
	for ; i < len(args); i++ {
		more := len(args) - 1 - i
		switch word := args[i]; {
		case equalFold(word, "block") && more > 0:
			i++
			ms, ok := parseInt(args[i])
			switch {
			case !ok:
				return r, errTimeout
			case ms < 0:
				return r, errTimeoutBelow0
			}
			ms = min(ms, int64(math.MaxInt64/time.Millisecond))
			r.waits, r.timeout = true, time.Duration(ms)*time.Millisecond
		case equalFold(word, "count") && more > 0:
			i++
			n, ok := parseInt(args[i])
			if !ok {
				return r, errNotInteger
			}
			r.count = int(max(n, 0))
		case equalFold(word, "streams") && more > 0:
			return r, r.parseStreams(args[i+1:], hasGroup)
		case equalFold(word, "group") && more > 1:
			if !isGroup {
				return r, errGroupOfRead
			}
			r.group, r.consumer, hasGroup = string(args[i+1]), string(args[i+2]), true
			i += 2
		case equalFold(word, "noack"):
			if !isGroup {
				return r, errNoAckOfRead
			}
			r.noAck = true
		default:
			return r, errSyntax
		}
	}
	return r, errStreamsMissing
}

func (r *streamRead) parseStreams(args [][]byte, hasGroup bool) error {
	if len(args)%2 != 0 {
		return errUnbalanced
	}
	if r.isGroup && !hasGroup {
		return errNoGroup
	}
	if r.waits { // the client may send more meanwhile
		args = cloneArgs(args)
	}
	r.keys, r.ids = args[:len(args)/2], args[len(args)/2:]
	return nil
}

func cloneArgs(args [][]byte) [][]byte {
	cloned := make([][]byte, len(args))
	for i := range args {
		cloned[i] = bytes.Clone(args[i])
	}
	return cloned
}

// readStreams executes a command that reads streams, and waits for entries if it says so. read returns what there is;
// it is told whether the client waits.
func (c *connection) readStreams(r *streamRead, read func(waits bool) ([]readStream, error)) error {
	var found []readStream
	b := blocking{keys: keyStrings(r.keys), timeout: r.timeout, nothing: c.out.writeNullArray,
		reply: func() { c.writeStreams(found) },
		try: func(waits bool) (done bool, err error) {
			found, err = read(waits)
			return len(found) > 0, err
		}}
	if r.waits {
		return c.block(b)
	}
	done, err := b.try(false)
	switch {
	case err != nil:
		return err
	case done:
		b.reply()
	default:
		b.nothing()
	}
	return nil
}

// XREAD [COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]
func xread(c *connection, args [][]byte) error {
	r, err := parseStreamRead(args, false)
	if err != nil {
		return err
	}
	after := make([]value.StreamID, len(r.keys))
	return c.readStreams(&r, func(waits bool) ([]readStream, error) { return c.readAfter(&r, after, waits) })
}

// readAfter returns what is in streams after some ids, which it finds out unless the client waits already. Then keys of
// another type are passed over.
func (c *connection) readAfter(r *streamRead, after []value.StreamID, waits bool) (found []readStream, err error) {
	values, err := c.readTogether(r.keys)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		h, err := c.collectionIn(v, value.Stream)
		switch {
		case err != nil && waits:
			continue
		case err != nil:
			return nil, err
		}
		s := value.StreamOf(&h)
		if !waits {
			if after[i], err = r.after(i, s); err != nil {
				return nil, err
			}
		}
		if entries := r.first(entriesAfter(s, after[i])); len(entries) > 0 {
			found = append(found, readStream{key: r.keys[i], entries: entries})
		}
	}
	return found, nil
}

// after returns the id after which XREAD returns what is in the i-th stream.
func (r *streamRead) after(i int, s *value.StreamLog) (value.StreamID, error) {
	switch string(r.ids[i]) {
	case "$":
		return s.Last, nil
	case ">":
		return value.StreamID{}, errGreater
	}
	return parseStrictID(r.ids[i])
}

func entriesAfter(s *value.StreamLog, id value.StreamID) []value.StreamEntry {
	next, ok := id.Next()
	if !ok {
		return nil
	}
	return entriesBetween(s, next, value.MaxStreamID)
}

func (r *streamRead) first(entries []value.StreamEntry) []value.StreamEntry {
	if r.count > 0 && len(entries) > r.count {
		return entries[:r.count]
	}
	return entries
}

// readStream is what a command has read of a stream.
type readStream struct {
	key     []byte
	entries []value.StreamEntry
	missing []int // of the entries, those that were removed
}

func (c *connection) writeStreams(found []readStream) {
	if len(found) == 0 {
		c.out.writeNullArray()
		return
	}
	c.out.writeStreamsHeader(len(found))
	for _, s := range found {
		c.out.writePairHeader()
		c.out.writeBulk(s.key)
		c.out.writeArrayHeader(len(s.entries))
		for i := range s.entries {
			if slices.Contains(s.missing, i) {
				c.out.writeArrayHeader(2)
				c.out.writeBulkString(s.entries[i].ID.String())
				c.out.writeNullArray()
			} else {
				c.writeEntry(&s.entries[i])
			}
			c.out.flushIfFull()
		}
	}
}

// XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]
func xreadGroup(c *connection, args [][]byte) error {
	r, err := parseStreamRead(args, true)
	if err != nil {
		return err
	}
	return c.readStreams(&r, func(waits bool) ([]readStream, error) { return c.deliver(&r, waits) })
}

// deliver delivers entries of streams to a consumer of a group.
func (c *connection) deliver(r *streamRead, waits bool) (found []readStream, err error) {
	err = c.changeKeys(storageKeys(c.database, keyStrings(r.keys)), func(ds []*draft) error {
		found = nil
		after := make([]value.StreamID, len(ds))
		for i, d := range ds {
			if waits && !d.isStream() {
				return errStreamGone
			}
			if after[i], err = c.checkGroupRead(r, i, d); err != nil {
				return err
			}
		}
		for i, d := range ds {
			if err := c.readGroup(r, i, d, after[i], &found); err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// errStreamGone ends the wait of a consumer.
var errStreamGone = &Error{Code: "UNBLOCKED", Message: "the stream key no longer exists"}

// isStream reports whether the key is a stream.
func (d *draft) isStream() bool { return d.change != nil && d.change.Kind() == value.Stream }

// checkGroupRead returns after which id the i-th stream is read; the last one there can be: what is new.
func (c *connection) checkGroupRead(r *streamRead, i int, d *draft) (after value.StreamID, err error) {
	ch, err := d.collection(value.Stream, c.nowMs())
	if err != nil {
		return after, err
	}
	if ch.Stream().Group(r.group) == nil {
		return after, Errorf("NOGROUP", "No such key '%s' or consumer group '%s' in XREADGROUP with GROUP option",
			cText(string(r.keys[i])), cText(r.group))
	}
	switch string(r.ids[i]) {
	case "$":
		return after, errDollar
	case ">":
		return value.MaxStreamID, nil
	}
	return parseStrictID(r.ids[i])
}

// readGroup delivers entries of the i-th stream.
func (c *connection) readGroup(r *streamRead, i int, d *draft, after value.StreamID, found *[]readStream) error {
	s := d.change.Stream()
	g := s.Group(r.group)
	if after != value.MaxStreamID {
		*found = append(*found, c.readHistory(r, i, d, g, after))
		return nil
	}
	entries := g.Undelivered(r.count)
	if len(entries) == 0 {
		return nil
	}
	row := len(r.group) + len(r.consumer) + 2*elementBytes
	if err := c.checkStream(d.change.Size() + (len(entries)+2)*row); err != nil {
		return err
	}
	now := c.nowMs()
	g.Deliver(entries, c.line())
	for j := range entries {
		if !r.noAck {
			g.Await(value.Pending{ID: entries[j].ID, AtMs: now, Count: 1, Consumer: r.consumer})
		}
	}
	g.See(r.consumer, now)
	d.written = true
	*found = append(*found, readStream{key: r.keys[i], entries: entries})
	return nil
}

// readHistory returns what is pending for the consumer, and counts that as another delivery.
func (c *connection) readHistory(r *streamRead, i int, d *draft, g *value.StreamGroup,
	after value.StreamID) readStream {
	read, s, now := readStream{key: r.keys[i]}, d.change.Stream(), c.nowMs()
	for _, p := range g.PendingOf(r.consumer) {
		if !after.Less(p.ID) {
			continue
		}
		if r.count > 0 && len(read.entries) == r.count {
			break
		}
		e := s.Entry(p.ID)
		if e == nil {
			e = &value.StreamEntry{ID: p.ID}
			read.missing = append(read.missing, len(read.entries))
		} else {
			p.AtMs, p.Count = now, p.Count+1
			g.Await(p)
			d.written = true
		}
		read.entries = append(read.entries, *e)
	}
	if !g.HasConsumer(r.consumer) {
		g.See(r.consumer, now)
		d.written = true
	}
	return read
}
