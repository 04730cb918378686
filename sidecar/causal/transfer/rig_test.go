package transfer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// store is a source or a sink: a map of records.
type store map[string]causal.Record

// page reads records from a key on, and says where to continue.
func (s store) page(after string, limit int) (records []causal.Moved, next string) {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if key < after {
			continue
		}
		if len(records) == limit {
			return records, key
		}
		records = append(records, causal.Moved{Key: key, Record: s[key]})
	}
	return records, ""
}

// message is what is on the way, either way.
type message struct {
	request *Request
	page    *Page
}

// rig moves the records of a source to a sink: hosts of a Receiver and a Sender as packages shard and member have them,
// that may stop at any step, and a network that may do anything.
type rig struct {
	t   *testing.T
	rng *rand.Rand
	now causal.Now

	source, sink store
	receiver     Receiver
	sender       Sender
	runs, lives  uint64
	dirty        map[string]bool // keys of the source that were written since its list was made
	passKeys     []string        // of the second pass
	stopped      bool            // the source is not written any more

	pending *Page // that the sink is writing
	network []message
	chaos   bool
	written map[Place]int // how often each page was written since the run began
	asked   int
}

const repeat = time.Second

// answer returns the page for a request, without records.
func (r Request) answer() Page { return Page{Run: r.Run, Life: r.Life, At: r.At} }

func newRig(t *testing.T, seed uint64) *rig {
	r := &rig{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: causal.Now{Mono: 1}, source: store{}, sink: store{}}
	for i := range 1 + r.rng.IntN(30) {
		r.source[fmt.Sprint("k", i)] = record(1, "first")
	}
	r.sink["left from an earlier time"] = record(1, "wrong")
	r.startReceiver()
	r.startSender()
	return r
}

// startReceiver begins a run, as after a restart.
func (r *rig) startReceiver() {
	r.runs++
	r.receiver, r.pending = NewReceiver(Config{Run: r.runs, Repeat: repeat}), nil
}

// startSender forgets what was asked for and what was written, as after a restart.
func (r *rig) startSender() {
	r.lives++
	r.sender, r.dirty, r.passKeys = Sender{}, map[string]bool{}, nil
}

// write changes the source.
func (r *rig) write(key string, hlc causal.HLC) {
	if r.stopped {
		return
	}
	if r.rng.IntN(3) == 0 {
		delete(r.source, key)
	} else {
		r.source[key] = record(hlc, "later")
	}
	r.dirty[key] = true
}

// read reads a page of the source: of all that there is, or of what has changed since.
func (r *rig) read(asked Request) *Page {
	const limit = 3
	p := asked.answer()
	if asked.At.Pass == 1 {
		records, next := r.source.page(asked.At.After, limit)
		p.Records, p.Next, p.End = records, asked.At.Follows(1, next), next == ""
		return &p
	}
	from := min(int(asked.At.Seq), len(r.passKeys))
	upTo := min(from+limit, len(r.passKeys))
	for _, key := range r.passKeys[from:upTo] {
		p.Records = append(p.Records, causal.Moved{Key: key, Record: r.source[key]})
	}
	p.Next, p.End, p.Last = asked.At.Follows(uint64(upTo-from), ""), upTo == len(r.passKeys), true
	return &p
}

// step lets a moment pass, and everything happen that can.
func (r *rig) step() {
	r.now.Mono += int64(repeat / 10)
	if req, _, ok := r.receiver.Ask(r.now); ok {
		r.asked++
		r.send(message{request: &req})
	}
	switch {
	case r.receiver.IsClearing():
		clear(r.sink)
		r.written = map[Place]int{}
		r.receiver.Cleared()
	case r.pending != nil:
		r.finishWrite()
	}
	arriving := r.network
	r.network = nil
	for _, m := range arriving {
		switch {
		case r.chaos && r.rng.IntN(4) == 0: // lost
		case r.chaos && r.rng.IntN(4) == 0: // late
			r.network = append(r.network, m)
		case r.chaos && r.rng.IntN(4) == 0: // twice
			r.deliver(m)
			r.network = append(r.network, m)
		default:
			r.deliver(m)
		}
	}
}

func (r *rig) send(m message) {
	r.network = append(r.network, m)
	if r.chaos {
		r.rng.Shuffle(len(r.network), func(i, j int) { r.network[i], r.network[j] = r.network[j], r.network[i] })
	}
}

func (r *rig) deliver(m message) {
	if m.page != nil {
		if r.receiver.Take(m.page) == Write {
			r.pending = m.page
		}
		return
	}
	switch r.sender.Asked(*m.request) {
	case NewRun, UnknownRun:
		r.sender.Begin(m.request.Run, r.lives, First())
		r.dirty = map[string]bool{}
	case NextPass:
		r.stopped = true
		r.sender.BeginPass()
		r.sender.EndWithPass()
		r.passKeys = slices.Sorted(maps.Keys(r.dirty))
	case Late, ThisPage:
	}
	if asked, wanted := r.sender.Wanted(); wanted {
		if p := r.read(asked); r.sender.Answered(asked) {
			r.send(message{page: p})
		}
	}
}

func (r *rig) finishWrite() {
	if r.written[r.pending.At]++; r.written[r.pending.At] > 1 {
		r.t.Errorf("the page at %+v was written %d times", r.pending.At, r.written[r.pending.At])
	}
	for _, m := range r.pending.Records {
		if m.Record.Version.IsZero() {
			delete(r.sink, m.Key)
		} else {
			r.sink[m.Key] = m.Record
		}
	}
	r.pending = nil
	r.receiver.Written()
}

// finish lets everything arrive from now on, until the run is done, and compares.
func (r *rig) finish() {
	r.t.Helper()
	r.chaos = false
	for i := 0; !r.receiver.IsDone(); i++ {
		if i > 3000 {
			r.t.Fatalf("the run does not end: receiver %+v, sender %+v", r.receiver, r.sender)
		}
		r.step()
	}
	if !maps.EqualFunc(r.sink, r.source, func(a, b causal.Record) bool { return a.Version == b.Version }) {
		r.t.Errorf("the sink has %v, the source %v", r.sink, r.source)
	}
}
