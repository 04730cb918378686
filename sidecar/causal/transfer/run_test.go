package transfer

import (
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Messages are lost, late, repeated and overtake each other, the source is written meanwhile, and both ends restart at
// any step.
func TestTheSinkHasWhatTheSourceHasWhateverHappens(t *testing.T) {
	for seed := range uint64(2000) {
		r := newRig(t, seed)
		r.chaos = true
		for range 20 + r.rng.IntN(100) {
			r.step()
			r.write(fmt.Sprint("k", r.rng.IntN(35)), causal.HLC(r.now.Mono))
			switch r.rng.IntN(60) {
			case 0:
				r.startReceiver()
			case 1:
				r.startSender()
			}
		}
		r.finish()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestEitherEndMayRestartAtEachStep(t *testing.T) {
	for step := range 60 {
		for _, restart := range []func(*rig){(*rig).startReceiver, (*rig).startSender,
			func(r *rig) { r.startReceiver(); r.startSender() }} {
			r := newRig(t, 3)
			for range step {
				r.step()
			}
			r.write("k1", 50)
			restart(r)
			r.write("k2", 60)
			r.finish()
			if t.Failed() {
				t.Fatalf("step %d", step)
			}
		}
	}
}

// page is the answer to a request for a page that a record is on, and after which the source continues elsewhere.
func (r *rig) answer(change ...func(*Page)) Page {
	r.t.Helper()
	req, _, ok := r.receiver.Ask(r.now)
	if !ok {
		r.t.Fatalf("nothing is asked for: %+v", r.receiver)
	}
	p := req.answer()
	p.Life, p.Records = 1, []causal.Moved{{Key: "k", Record: record(1, "v")}}
	p.Next = p.At.Follows(1, fmt.Sprint("after ", p.At.Seq))
	for _, f := range change {
		f(&p)
	}
	return p
}

// beginRun returns a rig whose receiver has two pages and wants the third one.
func beginRun(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, 1)
	r.receiver.Cleared()
	for range 2 {
		if p := r.answer(); r.receiver.Take(&p) != Write {
			t.Fatalf("a page is not taken: %+v", r.receiver)
		}
		r.receiver.Written()
	}
	return r
}

func TestOnlyThePageThatIsWantedIsTaken(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Page)
		want   Verdict
	}{
		"the page":                    {func(*Page) {}, Write},
		"the page before":             {func(p *Page) { p.At.Seq-- }, Ignore},
		"the page after":              {func(p *Page) { p.At.Seq++ }, Ignore},
		"a page of the next pass":     {func(p *Page) { p.At = Place{Pass: 2} }, Ignore},
		"a page of an earlier run":    {func(p *Page) { p.Run-- }, Ignore},
		"the page of another life":    {func(p *Page) { p.Life++ }, StartOver},
		"the first one of that":       {func(p *Page) { p.Life, p.At = 2, First() }, StartOver},
		"another one of that":         {func(p *Page) { p.Life, p.At.Seq = 2, 1 }, Ignore},
		"the first one":               {func(p *Page) { p.At = First() }, Ignore},
		"the page is lost":            {func(p *Page) { p.Lost, p.Life = true, 0 }, StartOver},
		"the page before is lost":     {func(p *Page) { p.Lost, p.At.Seq = true, 1 }, Ignore},
		"it ends":                     {func(p *Page) { p.End, p.Next = true, p.At }, Write},
		"it leads nowhere":            {func(p *Page) { p.Next = p.At }, Ignore},
		"it leads back":               {func(p *Page) { p.Next.Seq--; p.Next.Seq-- }, Ignore},
		"it leads to where it is":     {func(p *Page) { p.Next.After = p.At.After }, Ignore},
		"it leads to another pass":    {func(p *Page) { p.Next.Pass++ }, Ignore},
		"one record that is large":    {func(p *Page) { p.Records = sized(2 * MaxPageBytes) }, Write},
		"as much as may be":           {func(p *Page) { p.Records = sized(MaxPageBytes/2, MaxPageBytes/2-100) }, Write},
		"more than one page may have": {func(p *Page) { p.Records = sized(MaxPageBytes, 1) }, Ignore},
	} {
		r := beginRun(t)
		p := r.answer(c.change)
		if got := r.receiver.Take(&p); got != c.want {
			t.Errorf("%s: verdict %d, want %d", name, got, c.want)
		}
		if c.want != Write {
			continue
		}
		if got := r.receiver.Take(&p); got != Ignore {
			t.Errorf("%s, again while it is written: verdict %d", name, got)
		}
		r.receiver.Written()
		if got := r.receiver.Take(&p); got != Ignore {
			t.Errorf("%s, again when it was written: verdict %d", name, got)
		}
	}
}

func sized(sizes ...int) (records []causal.Moved) {
	for _, n := range sizes {
		records = append(records, causal.Moved{Record: record(1, string(make([]byte, n)))})
	}
	return records
}

// A source that fails all the time is asked once in a while.
func TestARequestIsRepeatedAtAnIntervalAlsoWhenTheRunStartsOver(t *testing.T) {
	r := beginRun(t)
	for i := range 5 {
		p := r.answer(func(p *Page) { p.Lost, p.Life = true, 0 })
		if r.receiver.Take(&p) != StartOver || !r.receiver.IsClearing() {
			t.Fatalf("after the page is lost: %+v", r.receiver)
		}
		if i == 0 {
			r.receiver.Begin(7)
		}
		r.receiver.Cleared()
		if _, _, ok := r.receiver.Ask(r.now); ok {
			t.Fatal("it asks at once")
		}
		r.now.Mono += int64(repeat)
	}
	req, again, ok := r.receiver.Ask(r.now)
	if !ok || again || req.At != First() || req.Run != 7 {
		t.Errorf("it asks for %+v, again %v", req, again)
	}
	if _, _, ok := r.receiver.Ask(r.now); ok {
		t.Error("it asks twice")
	}
	r.receiver.AskAgain()
	if _, _, ok := r.receiver.Ask(r.now); !ok {
		t.Error("it does not ask when the request is known to be lost")
	}
	r.now.Mono += int64(repeat)
	if _, again, ok := r.receiver.Ask(r.now); !ok || !again {
		t.Error("it does not ask again")
	}
}

func TestASourceAnswersTheLastRequestOfTheGreatestRun(t *testing.T) {
	var s Sender
	ask := func(run, life, pass, seq uint64) Demand {
		return s.Asked(Request{Run: run, Life: life, At: Place{Pass: pass, Seq: seq}})
	}
	for i, c := range []struct {
		got, want Demand
	}{{ask(5, 0, 1, 0), NewRun}, {ask(5, 0, 1, 3), UnknownRun}} {
		if c.got != c.want {
			t.Fatalf("request %d before it has begun: %d", i, c.got)
		}
	}
	s.Begin(5, 9, First())
	first, wanted := s.Wanted()
	if !wanted || !s.Answered(first) {
		t.Fatalf("the first page is not wanted: %+v", s)
	}
	if _, wanted = s.Wanted(); wanted {
		t.Fatal("it is wanted still")
	}
	for _, c := range []struct {
		what                 string
		run, life, pass, seq uint64
		want                 Demand
	}{
		{"the second page", 5, 9, 1, 3, ThisPage},
		{"that again", 5, 9, 1, 3, ThisPage},
		{"the page before, late", 5, 9, 1, 2, Late},
		{"an earlier run", 4, 9, 1, 0, Late},
		{"an earlier life", 5, 8, 1, 7, ThisPage},
		{"a pass that is far away", 5, 9, 3, 0, Late},
		{"the next pass", 5, 9, 2, 0, NextPass},
		{"a later run that it does not know", 6, 9, 1, 3, UnknownRun},
		{"a later run", 6, 0, 1, 0, NewRun},
	} {
		if got := ask(c.run, c.life, c.pass, c.seq); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
	// The page is read, and meanwhile the next one is asked for: the receiver has got an earlier answer.
	ask(5, 9, 1, 3)
	read, _ := s.Wanted()
	ask(5, 9, 1, 6)
	if s.Answered(read) {
		t.Error("a page is sent that is not wanted any more")
	}
	if now, wanted := s.Wanted(); !wanted || now.At.Seq != 6 {
		t.Errorf("%+v is wanted, %v", now, wanted)
	}
	s.EndWithPass()
	if got := ask(5, 9, 2, 0); got != Late {
		t.Errorf("there is another pass: %d", got)
	}
}
