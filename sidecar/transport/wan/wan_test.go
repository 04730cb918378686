package wan

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/topology"
)

// three returns the network of three data centers with round trips of 40, 100 and 120 ms.
func three(t testing.TB, o Options) *Emulator {
	t.Helper()
	dc := func(name string) topology.DataCenter {
		return topology.DataCenter{Name: name, Coordinators: 1, Shards: 1}
	}
	top, err := topology.New(1, []topology.DataCenter{dc("a"), dc("b"), dc("c")},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0, 1, 2}}},
		[][]float64{{1, 40, 100}, {40, 1, 120}, {100, 120, 1}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(top, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// item records when it was sent.
type item struct {
	from, to topology.DC
	id       int
	sent     time.Time
}

type arrival struct {
	item
	took time.Duration
}

// recorder is a line that records its output.
type recorder struct {
	*Line[item]
	mu       sync.Mutex
	arrived  []arrival
	lost     []int
	batches  int
	received chan struct{}
}

func open(e *Emulator) *recorder {
	s := &recorder{received: make(chan struct{}, 1<<20)}
	s.Line = NewLine(e, func(items []item) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.batches++
		for _, p := range items {
			s.arrived = append(s.arrived, arrival{p, time.Since(p.sent)})
			s.received <- struct{}{}
		}
	}, func(items []item) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, p := range items {
			s.lost = append(s.lost, p.id)
		}
	})
	return s
}

func (s *recorder) send(from, to topology.DC, id int) SendResult {
	return s.Send(from, to, 100, item{from, to, id, time.Now()})
}

// ids returns the items that have arrived since the last call, in order.
func (s *recorder) ids() (ids []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.arrived {
		ids = append(ids, a.id)
	}
	s.arrived = nil
	return ids
}

func want(t *testing.T, what string, got, want []int) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// heal ends the cut of one path.
func heal(t *testing.T, e *Emulator, from, to topology.DC) {
	t.Helper()
	if err := e.setCut(from, to, false); err != nil {
		t.Fatal(err)
	}
}

// isOpen reports whether messages arrive from one data center in the other.
func isOpen(e *Emulator, from, to topology.DC) bool {
	p := e.path(from, to)
	return p == nil || p.state.Load()%2 == 0
}

// The tests in synctest run on a fake clock: waiting takes no time and is exact.

func TestMessageTakesHalfOfTheRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(three(t, Options{}))
		defer s.Close()
		s.send(0, 1, 1)
		s.send(2, 0, 2)
		time.Sleep(20*time.Millisecond - 1)
		synctest.Wait()
		want(t, "early", s.ids(), nil)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		want(t, "after 20 ms", s.ids(), []int{1})
		time.Sleep(30 * time.Millisecond)
		synctest.Wait()
		want(t, "after 50 ms", s.ids(), []int{2})
	})
}

func TestItemsDueTogetherAreDeliveredTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(three(t, Options{}))
		defer s.Close()
		for i := range 100 {
			s.send(0, 1, i)
			time.Sleep(10 * time.Microsecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := len(s.ids()); got != 100 || s.batches > 4 {
			t.Errorf("%d messages in %d deliveries", got, s.batches)
		}
	})
}

func TestJitterDelaysAndNeverReorders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(three(t, Options{Jitter: 0.5, Seed: 1}))
		defer s.Close()
		for i := range 2000 {
			s.send(0, 1, i)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		late := 0
		for i, a := range s.arrived {
			if a.id != i {
				t.Fatalf("message %d arrived as number %d", a.id, i)
			}
			if a.took < 20*time.Millisecond || a.took > 30*time.Millisecond+minInterval {
				t.Fatalf("message %d took %v", i, a.took)
			}
			if a.took > 25*time.Millisecond {
				late++
			}
		}
		if len(s.arrived) != 2000 || late < 500 {
			t.Errorf("%d arrived, %d of them late: the jitter is not at work", len(s.arrived), late)
		}
	})
}

func TestCutLosesMessagesUntilItHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := three(t, Options{})
		s := open(e)
		defer s.Close()
		s.send(0, 1, 1)
		s.send(1, 0, 2)
		if err := e.Cut(0, 1); err != nil {
			t.Fatal(err)
		}
		if v := s.send(0, 1, 3); v != Cut {
			t.Errorf("sent into a cut: result %d", v)
		}
		if isOpen(e, 0, 1) || !isOpen(e, 1, 0) {
			t.Error("a cut of one path must not affect the path back")
		}
		heal(t, e, 0, 1)
		s.send(0, 1, 4)
		time.Sleep(time.Second)
		synctest.Wait()
		arrived := s.ids()
		slices.Sort(arrived) // two receivers, so either may be first
		want(t, "arrived", arrived, []int{2, 4})
		want(t, "lost after sending", s.lost, []int{1})
		for _, p := range e.Stats() {
			if p.From == 0 && p.To == 1 && (p.Messages != 2 || p.Bytes != 200 || p.Cut != 2 || !p.Open) {
				t.Errorf("%+v", p)
			}
		}
	})
}

func TestHealedPathStartsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := three(t, Options{})
		s := open(e)
		defer s.Close()
		_ = e.Congest(1, time.Minute)
		s.send(0, 1, 1)
		_ = e.CutBoth(0, 1)
		_ = e.Congest(1, 0)
		heal(t, e, 0, 1)
		heal(t, e, 1, 0)
		s.send(0, 1, 2) // must not queue behind the lost item, which was due in a minute
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		want(t, "arrived", s.ids(), []int{2})
	})
}

func TestAllDCsIsolatesADataCenter(t *testing.T) {
	e := three(t, Options{})
	_ = e.CutBoth(2, AllDCs)
	for from := range topology.DC(3) {
		for to := range topology.DC(3) {
			if open := isOpen(e, from, to); open != (from == to || from != 2 && to != 2) {
				t.Errorf("%d to %d: open is %v", from, to, open)
			}
		}
	}
	e.HealAll()
	if !isOpen(e, 2, 0) || !isOpen(e, 1, 2) {
		t.Error("not healed")
	}
}

func TestCongestionDelaysMessagesInAndOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := three(t, Options{})
		s := open(e)
		defer s.Close()
		if err := e.Congest(1, 30*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		delays := map[[2]topology.DC]int{{0, 1}: 50, {1, 0}: 50, {1, 2}: 90, {2, 1}: 90, {0, 2}: 50, {2, 0}: 50}
		stats := e.Stats()
		for _, p := range stats {
			if want := time.Duration(delays[[2]topology.DC{p.From, p.To}]) * time.Millisecond; p.Delay != want {
				t.Errorf("the delay from %d to %d is %v, want %v", p.From, p.To, p.Delay, want)
			}
		}
		if len(stats) != len(delays) {
			t.Errorf("%d paths, want %d", len(stats), len(delays))
		}
		s.send(0, 1, 1)
		_ = e.Congest(1, 0)
		s.send(0, 1, 2) // has less delay, but must not overtake the first
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		want(t, "after 20 ms", s.ids(), nil)
		time.Sleep(30 * time.Millisecond)
		synctest.Wait()
		want(t, "after 50 ms", s.ids(), []int{1, 2})
	})
}

func TestFullPathRefusesMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := three(t, Options{})
		s := open(e)
		defer s.Close()
		for i := range maxItems {
			if v := s.Send(0, 1, 1, item{id: i}); v != Queued {
				t.Fatalf("message %d: result %d", i, v)
			}
		}
		if v := s.Send(0, 1, 1, item{}); v != Overflow {
			t.Errorf("one too many: result %d", v)
		}
		if v := s.Send(0, 2, 1, item{}); v != Queued {
			t.Errorf("another path is full as well: result %d", v)
		}
		if v := s.Send(2, 1, maxBytes+1, item{}); v != Queued {
			t.Errorf("a large item alone: result %d", v)
		}
		if v := s.Send(2, 1, 1, item{}); v != Overflow {
			t.Errorf("behind a large item: result %d", v)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := len(s.ids()); got != maxItems+2 {
			t.Errorf("%d arrived", got)
		}
	})
}

func TestLineRefusesUnknownPathsAndSendsAfterClose(t *testing.T) {
	s := open(three(t, Options{}))
	for _, pair := range [][2]topology.DC{{0, 0}, {0, 3}, {9, 1}, {AllDCs, 1}} {
		if v := s.send(pair[0], pair[1], 1); v != NoPath {
			t.Errorf("%v: result %d", pair, v)
		}
	}
	s.Close()
	s.Close()
	if v := s.send(0, 1, 1); v != Closed {
		t.Errorf("after Close: result %d", v)
	}
}

func TestInvalidArgumentsAreRefused(t *testing.T) {
	e := three(t, Options{})
	for name, err := range map[string]error{
		"unknown DC":           e.Cut(0, 7),
		"itself":               e.CutBoth(1, 1),
		"congestion":           e.Congest(0, -1),
		"congestion of all":    e.Congest(AllDCs, 1),
		"heal from unknown DC": e.setCut(8, AllDCs, false),
		"heal to unknown DC":   e.setCut(0, 8, false),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	top := &topology.Topology{DCs: make([]topology.DataCenter, 2), RTT: [][]float64{{0, 1}, {-1, 0}}}
	if _, err := New(top, Options{}); err == nil {
		t.Error("a negative round-trip time was accepted")
	}
	top.RTT = [][]float64{{0, 1}, {0}}
	if _, err := New(top, Options{}); err == nil {
		t.Error("a table with a missing column was accepted")
	}
	if _, err := New(&topology.Topology{}, Options{Jitter: -1}); err == nil {
		t.Error("a negative jitter was accepted")
	}
}

// This test combines many senders, cuts and congestion. It asserts only what holds on a slow machine, too.
func TestNoMessageIsEarlyOrReorderedOnTheRealClock(t *testing.T) {
	e := three(t, Options{Jitter: 0.2, Seed: 7})
	s := open(e)
	const each = 3000
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var chaos sync.WaitGroup
	chaos.Go(func() {
		rng := rand.New(rand.NewPCG(1, 2))
		for i := 0; ; i++ {
			select {
			case <-stop:
				e.HealAll()
				return
			case <-time.After(time.Millisecond):
			}
			_ = e.Congest(topology.DC(rng.IntN(3)), time.Duration(rng.IntN(5))*time.Millisecond)
			if i%10 == 0 {
				_ = e.CutBoth(2, topology.DC(rng.IntN(2)))
			}
			if i%10 == 5 {
				_ = e.setCut(2, AllDCs, false)
				_ = e.setCut(AllDCs, 2, false)
			}
		}
	})
	var mu sync.Mutex
	queued := 0
	for from := range topology.DC(3) {
		for to := range topology.DC(3) {
			if from == to {
				continue
			}
			wg.Go(func() {
				n := 0
				for i := range each {
					if s.send(from, to, i) == Queued {
						n++
					}
					if i%50 == 0 {
						<-time.After(time.Millisecond) // spread over the life of several cuts
					}
				}
				mu.Lock()
				queued += n
				mu.Unlock()
			})
		}
	}
	wg.Wait()
	close(stop)
	chaos.Wait()

	deadline := time.After(30 * time.Second)
	for done := false; !done; {
		s.mu.Lock()
		done = len(s.arrived)+len(s.lost) == queued
		s.mu.Unlock()
		if !done {
			select {
			case <-s.received:
			case <-time.After(5 * time.Millisecond): // the last ones may have been lost
			case <-deadline:
				t.Fatalf("of %d messages %d arrived and %d were lost", queued, len(s.arrived), len(s.lost))
			}
		}
	}
	s.Close()
	last := map[[2]topology.DC]int{}
	least := e.oneWay
	for _, a := range s.arrived {
		way := [2]topology.DC{a.from, a.to}
		if before, ok := last[way]; ok && a.id <= before {
			t.Fatalf("%v: message %d came after %d", way, a.id, before)
		}
		last[way] = a.id
		if a.took < least[int(a.from)*3+int(a.to)] {
			t.Fatalf("%v: message %d took only %v", way, a.id, a.took)
		}
	}
	if len(s.arrived) < each {
		t.Errorf("only %d arrived", len(s.arrived))
	}
}

func TestPipeKeepsOrderWhenItsRingWraps(t *testing.T) {
	e := three(t, Options{})
	p := newPipe[int](e, 0, 1)
	rng := rand.New(rand.NewPCG(3, 4))
	next, expect := 0, 0
	now := int64(0)
	for range 20000 {
		for range rng.IntN(6) {
			if _, ok := p.push(now, 0, 1, next, 0); ok {
				next++
			}
		}
		now += int64(rng.IntN(3)) * int64(time.Millisecond)
		for _, got := range p.pop(now, nil, rng.IntN(8)) {
			if got != expect {
				t.Fatalf("%d came out where %d was due", got, expect)
			}
			expect++
		}
	}
	rest := p.pop(now+int64(time.Hour), nil, 1<<30)
	if !slices.IsSorted(rest) || expect+len(rest) != next || p.count != 0 || p.bytes != 0 {
		t.Errorf("%d sent, %d+%d received, %d (%d bytes) left", next, expect, len(rest), p.count, p.bytes)
	}
}

func BenchmarkLine(b *testing.B) {
	e := three(b, Options{Jitter: 0.1})
	e.oneWay = make([]time.Duration, 9)
	e.updateDelays()
	l := NewLine(e, func([][40]uint64) {}, func([][40]uint64) {})
	defer l.Close()
	b.ReportAllocs()
	for b.Loop() {
		for l.Send(0, 1, 300, [40]uint64{}) != Queued {
		}
	}
}

func TestReconnectEndsTheCutsOfTheNamedDataCentersOnly(t *testing.T) {
	e := three(t, Options{})
	open := func() (n int) {
		for _, p := range e.Stats() {
			if p.Open {
				n++
			}
		}
		return n
	}
	for _, step := range []struct {
		do   func() error
		open int
	}{
		{func() error { return e.CutBoth(AllDCs, AllDCs) }, 0},
		{func() error { return e.Reconnect(0, 1) }, 2},
		{func() error { return e.Reconnect(2, AllDCs) }, 6},
		{func() error { return e.Cut(0, 2) }, 5},
		{func() error { return e.Reconnect(2, 0) }, 6},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if n := open(); n != step.open {
			t.Errorf("%d paths are open; want %d", n, step.open)
		}
	}
	if err := e.Reconnect(0, 9); err == nil {
		t.Error("a data center that does not exist was reconnected")
	}
	if err := e.Congest(1, time.Second); err != nil || e.Congestion(1) != time.Second || e.Congestion(0) != 0 {
		t.Errorf("congestion of 1 and 0: %v and %v, error %v", e.Congestion(1), e.Congestion(0), err)
	}
}
