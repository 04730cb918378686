// Package transfer moves the records of many keys from one place to another, page by page: the one machine below
// resharding (package shard), the copies that members make of a storage (package member), and the listings of a
// backfill (package middleman). A Receiver asks, a Sender answers. Neither reads or writes records: their hosts do,
// from and to a storage, and the same way from a file, or to an object (PROTOCOL TRF).
//
// State. A run is a transfer from one source to one sink. It has one pass, or several: each later pass has what has
// changed since the one before. A pass is a sequence of pages, each with a Place. The receiver has the place of the
// page that it wants, and whether that is on its way or being written, or the sink has to be cleared first. The sender
// has the place that it was asked for last.
//
// Invariants:
//   - A page is taken in only if it is of the run, of the life of the source that the run is of, and at the place that
//     is wanted. So pages that are lost, late, repeated or overtake each other change nothing.
//   - The next page is asked for when the one before is in the sink. So the sink has a beginning of the pass, and at
//     most one page is in memory for each run, of MaxPageBytes, or of one record.
//   - A source that has started again, or cannot go on at a place, has forgotten what has changed since pages were
//     read. So the run starts over, and its sink says what becomes of the pages that it has.
//   - Asking is repeated at an interval, also when a run starts over, so that a source that fails is not asked all the
//     time; only progress is followed at once. A host that has enough to do does not ask, and is sent nothing.
//
// Where a source continues is said by a cursor that only it understands. Keys need not come in order, and may come
// twice: a storage may list them by their hashes, as Redis does.
//
// What the three add, besides how they find their peers:
//
//	              resharding                member copy               backfill
//	source        a shard of the ring       the group's primary       a shard of another ring
//	pages         records, and "removed"    records, and the marks    names; records are looked up one by one, and
//	                                        of the middleman          sent if they differ
//	passes        two: all that there is,   one                       one for each donor
//	              and what has changed
//	changes       the giver notes keys      the log behind the first  they come as puts too, and join
//	meanwhile     that are written          page is kept and applied
//	on arrival    replaces: the slots were  replaces: the storage     joins with what is there, in the queue of the
//	              emptied, and only one     was emptied, and the      key (Arrive)
//	              source has them           log says what wins
//	starts over   the slots of this giver   the storage is emptied    what is there stays: each key that was named
//	              are removed                                         is looked up
//	deletions     tombstones, and the       tombstones, and the       "missing" and the horizon, once that is durable;
//	              horizon with each page    horizon among the marks   own keys are looked up too
//	damage        a shard that lacks data   foreign values are left   keys that were lost are wanted, and no others;
//	              neither gives nor takes   out                       donors say which they lack
//	fences        are of coordinators, and  are among the marks       no put is taken before the fence of its log is
//	              stay where they are                                 durable
//	the end       the new map is durable    the log is durable, then  coordinators have answered twice, and what they
//	                                        the marker                had under way is there
//	another       none has the slots        a new run, with another   the next ring; the listing starts over
//	source                                  number
package transfer

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/sidecar/value"
)

const (
	// PageBytes is about how much a page carries, in bytes; a single record may be larger.
	PageBytes = 1 << 20
	// MaxPageBytes is what a receiver takes as one page of more than one record. Other versions may make larger pages.
	MaxPageBytes = 4 * PageBytes
)

// Place is where a page is in a run.
type Place struct {
	Pass uint64 // from 1
	// Seq grows from page to page of a pass, from 0: it counts the pages before, or their records.
	Seq uint64
	// After is where the source continues, as the page before has said; "": at the beginning.
	After string
}

// First returns the place with which a run begins.
func First() Place { return Place{Pass: 1} }

// Follows returns the place of the page after one of n pages or records, where the source continues at a cursor.
func (p Place) Follows(n uint64, after string) Place {
	return Place{Pass: p.Pass, Seq: p.Seq + n, After: after}
}

// is reports whether both are the same place. After follows from that: messages with pages do not repeat it.
func (p Place) is(o Place) bool { return p.Pass == o.Pass && p.Seq == o.Seq }

// Request asks for a page.
type Request struct {
	// Run is the number of the run. Each later run of a receiver has a greater one, also after a restart.
	Run uint64
	// Life is that of the source; 0: it is not known yet, or the source has none.
	Life uint64
	At   Place
}

// Page is an answer to a Request.
type Page struct {
	Run uint64
	// Life tells a start of the source from those before.
	Life uint64
	At   Place
	// Lost says that the source cannot continue at this place.
	Lost bool
	// Records may be nil, with names in another form.
	Records []causal.Moved
	// Next is the place of the page after this one, unless it ends the pass. Last says that no other pass follows.
	Next      Place
	End, Last bool
}

// Fit returns how many of the records, at least one if there are any, fit into a page: beside others, even a record
// that fits into a message alone might not.
func Fit(records []causal.Moved, maxBytes int) (n int) {
	bytes := 0
	for n < len(records) {
		if bytes += sizeOf(&records[n]); n > 0 && bytes > maxBytes {
			break
		}
		n++
	}
	return n
}

func sizeOf(r *causal.Moved) int { return len(r.Key) + r.Record.Value.Size() }

// Effect is what an arrival changes in a sink.
type Effect uint8

// The effects of an arrival.
const (
	Keeps   Effect = iota // the sink has it, or more
	Writes                // what Arrive has returned is to be written
	Removes               // the key is to be removed
)

// Arrive joins what a source has of a key with what the sink has, nil if it has nothing. Of a key that the source has
// not, the record is causal.Missing, whose horizon must be durable in the sink before it removes anything: an older put
// of the key may come later.
func Arrive(types *value.Types, has *causal.Record, arrived causal.Record) (causal.Record, Effect) {
	isMissing := !arrived.Version.Written()
	if has == nil {
		if isMissing {
			return arrived, Keeps
		}
		return arrived, Writes
	}
	joined, changed := keystate.Add(types, *has, arrived)
	switch {
	case !changed:
		return joined, Keeps
	case isMissing && !joined.Value.Merges():
		return joined, Removes
	}
	return joined, Writes
}
