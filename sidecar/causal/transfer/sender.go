package transfer

// Sender is the source's end of the runs of one receiver. Its host passes requests to Asked, reads the page that Wanted
// names, and sends it if Answered says so. It remembers the last request only, so that a receiver has one page read at
// a time however often it asks.
//
// Invariant: it answers one run, the greatest that it has heard of.
type Sender struct {
	run  uint64 // 0: none has begun
	life uint64
	at   Place // that was asked for last
	// wanted: it was not answered since.
	wanted bool
	last   bool // there is no other pass
}

// Demand is what a request asks of a source.
type Demand uint8

// The demands of a receiver.
const (
	// Late requests need no answer, or get the one that is on its way.
	Late Demand = iota
	// NewRun: the host prepares to read from the beginning, and calls Begin.
	NewRun
	// UnknownRun is one that has begun before this source remembers. The host says that the page is lost, or begins the
	// run with a page of another life, or where the receiver is.
	UnknownRun
	// ThisPage is wanted now.
	ThisPage
	// NextPass: the host may call BeginPass.
	NextPass
)

// Asked decides what a request asks for.
func (s *Sender) Asked(r Request) Demand {
	at := r.At
	if r.Life != 0 && r.Life != s.life {
		at = First() // it learns of this life with the first page
	}
	switch {
	case r.Run < s.run:
		return Late
	case r.Run > s.run && r.At.is(First()):
		return NewRun
	case r.Run > s.run:
		return UnknownRun
	case at.Pass == s.at.Pass+1 && !s.last:
		return NextPass
	case at.Pass != s.at.Pass || at.Seq < s.at.Seq && at.Seq > 0:
		return Late
	}
	s.at, s.wanted = at, true
	return ThisPage
}

// Run returns the number of the run; 0: none has begun.
func (s *Sender) Run() uint64 { return s.run }

// At returns the place that was asked for last.
func (s *Sender) At() Place { return s.at }

// IsLast reports whether there is no other pass.
func (s *Sender) IsLast() bool { return s.last }

// Begin begins a run, of which the page at a place is wanted: the first one, unless the source can continue anywhere.
func (s *Sender) Begin(run, life uint64, at Place) {
	*s = Sender{run: run, life: life, at: at, wanted: true}
}

// BeginPass begins the next pass, of which the first page is wanted.
func (s *Sender) BeginPass() { s.at, s.wanted = Place{Pass: s.at.Pass + 1}, true }

// EndWithPass says that there is no pass after this one.
func (s *Sender) EndWithPass() { s.last = true }

// Wanted returns the request that waits for a page.
func (s *Sender) Wanted() (Request, bool) {
	return Request{Run: s.run, Life: s.life, At: s.at}, s.wanted
}

// Answered says that the page for a request was read, and reports whether it is to be sent: nothing else was asked for
// since.
func (s *Sender) Answered(r Request) bool {
	if r.Run != s.run || !r.At.is(s.at) {
		return false
	}
	s.wanted = false
	return true
}
