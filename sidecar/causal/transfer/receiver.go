package transfer

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Receiver is the sink's end of a run. Its host sends what Ask returns, passes to Take what arrives, does what that
// says, and reports with Written or Cleared that it has done so.
//
// Invariant: everything before the place at is in the sink, durably if the sink is to outlive a restart.
type Receiver struct {
	cfg    Config
	life   uint64 // of the source; 0: not known yet
	at     Place  // of the page that is wanted
	state  receiverState
	taken  Page  // that is being written; without its records
	asked  bool  // the page was asked for
	askAt  int64 // monotonic: when it is asked for, or again
	passes uint64
	last   bool // the pass that is read is the last one
}

// Config configures a Receiver.
type Config struct {
	// Run is the number of its first run.
	Run uint64
	// Repeat is how long an unanswered request waits before it is repeated; 0: for ever, since it is always answered.
	Repeat time.Duration
	Broken causal.Mutations
}

type receiverState uint8

const (
	receiverClears receiverState = iota // the sink is to be cleared of what earlier runs have brought
	receiverAsks
	receiverWrites
	receiverIsDone
)

// NewReceiver returns a receiver whose sink is to be cleared first.
func NewReceiver(cfg Config) Receiver { return Receiver{cfg: cfg, at: First()} }

// ContinueReceiver returns a receiver whose sink has everything before a place of a source: since an earlier run has
// brought it, or because nothing is before the first one and what is there may stay.
func ContinueReceiver(cfg Config, life uint64, at Place) Receiver {
	return Receiver{cfg: cfg, life: life, at: at, state: receiverAsks, passes: at.Pass - 1}
}

// Life returns the life of the source; 0: it is not known yet.
func (r *Receiver) Life() uint64 { return r.life }

// At returns the place of the page that is wanted.
func (r *Receiver) At() Place { return r.at }

// IsBusy reports whether the sink is being written or cleared.
func (r *Receiver) IsBusy() bool { return r.state == receiverClears || r.state == receiverWrites }

// IsWaiting reports whether a page was asked for and has not come.
func (r *Receiver) IsWaiting() bool { return r.state == receiverAsks && r.asked }

// IsClearing reports whether the sink is to be cleared, or is being cleared.
func (r *Receiver) IsClearing() bool { return r.state == receiverClears }

// HasPass reports whether a pass was read to its end.
func (r *Receiver) HasPass() bool { return r.passes > 0 || r.IsDone() }

// IsLast reports whether the source has said that the pass is the last one.
func (r *Receiver) IsLast() bool { return r.last }

// IsDone reports whether the last pass was read to its end.
func (r *Receiver) IsDone() bool { return r.state == receiverIsDone }

// Finish says that nothing is to be taken in any more.
func (r *Receiver) Finish() { r.state = receiverIsDone }

// Ask returns the request that is to be sent now, if any, and whether it was sent before.
func (r *Receiver) Ask(now causal.Now) (request Request, again, ok bool) {
	if r.state != receiverAsks || now.Mono < r.askAt || r.asked && r.cfg.Repeat == 0 {
		return request, false, false
	}
	again, r.asked, r.askAt = r.asked, true, now.Mono+int64(r.cfg.Repeat)
	return Request{Run: r.cfg.Run, Life: r.life, At: r.at}, again, true
}

// NextAsk returns when Ask has a request to send; causal.Never: not before something else happens.
func (r *Receiver) NextAsk() int64 {
	if r.state != receiverAsks || r.asked && r.cfg.Repeat == 0 {
		return causal.Never
	}
	return r.askAt
}

// AskAgain says that the request or the answer is known to be lost.
func (r *Receiver) AskAgain() { r.asked, r.askAt = false, 0 }

// Verdict is what is to be done about a page.
type Verdict uint8

// The verdicts about a page.
const (
	// Ignore it: it is late, repeated, of another run, or not what a page may be.
	Ignore Verdict = iota
	// Write it, and call Written.
	Write
	// StartOver: what the run has brought is worth nothing by itself. The sink is to be cleared of it, or keeps it if
	// all of it will come again; then call Cleared, or begin another run.
	StartOver
)

// Take decides what is to be done about a page.
func (r *Receiver) Take(p *Page) Verdict {
	isWanted := p.At.is(r.at)
	switch {
	case r.cfg.Broken.Has(causal.AnyPage) && r.state == receiverAsks && !p.Lost: // it is taken below
	case r.state != receiverAsks || p.Run != r.cfg.Run:
		return Ignore
	case isWanted && p.Lost, r.life != 0 && p.Life != r.life && (isWanted || p.At.is(First())):
		r.startOver(p.Life)
		if !r.IsClearing() { // with the rule broken
			return Ignore
		}
		return StartOver
	case !isWanted || p.Lost || !isPage(p, r.at):
		return Ignore
	}
	r.life, r.state, r.taken = p.Life, receiverWrites, *p
	r.taken.Records = nil
	return Write
}

// Begin begins another run, for which the sink is to be cleared, as StartOver does.
func (r *Receiver) Begin(run uint64) {
	r.cfg.Run = run
	r.startOver(0)
}

// startOver goes back to the beginning. The next request waits until this one would have been repeated.
func (r *Receiver) startOver(life uint64) {
	r.life, r.at, r.state, r.asked, r.passes, r.last = life, First(), receiverClears, false, 0, false
	if r.cfg.Broken.Has(causal.StartOverUncleared) {
		r.state = receiverAsks
	}
}

// isPage reports whether a page may be one: it is not too large, and it does not lead back to where it is. Else: a
// source could keep a receiver busy for ever with one page.
func isPage(p *Page, at Place) bool {
	if Fit(p.Records, MaxPageBytes) < len(p.Records) {
		return false
	}
	isSame := p.Next.is(at) || p.Next.After == at.After && at.After != ""
	return p.End || p.Next.Pass == at.Pass && p.Next.Seq >= at.Seq && !isSame
}

// Written says that the page is in the sink.
func (r *Receiver) Written() {
	if r.state != receiverWrites {
		return
	}
	p := &r.taken
	r.state, r.at, r.asked, r.askAt, r.last = receiverAsks, p.Next, false, 0, p.Last
	switch {
	case p.End && p.Last:
		r.state = receiverIsDone
	case p.End:
		r.passes, r.at = r.passes+1, Place{Pass: p.At.Pass + 1}
	}
}

// Cleared says that the sink is cleared.
func (r *Receiver) Cleared() {
	if r.state == receiverClears {
		r.state = receiverAsks
	}
}
