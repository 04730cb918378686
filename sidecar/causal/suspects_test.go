package causal

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/topology"
)

var (
	asker  = topology.Node{Part: topology.Sidecar, Index: 7}
	shard0 = topology.Node{Part: topology.Middleman}
	shard1 = topology.Node{Part: topology.Middleman, Index: 1}
)

// pinger drives Suspects and takes their pings.
type pinger struct {
	s   *Suspects
	now Now
}

// pings lets a time go by in ticks, and returns the pings that were sent.
func (p *pinger) pings(d time.Duration) (sent []Message) {
	for end := p.now.Mono + int64(d); p.now.Mono < end; p.now.Mono += int64(5 * time.Millisecond) {
		p.s.Tick(p.now, asker, func(m Message) { sent = append(sent, m) })
	}
	return sent
}

func (p *pinger) answer(m Message) { p.s.Answered(p.now, m.To, m.Ping().ID) }

func TestASuspectIsPingedUntilItAnswers(t *testing.T) {
	p := pinger{s: &Suspects{}, now: Now{Mono: 1}}
	if p.s.Has(p.now, shard0) || len(p.pings(time.Second)) > 0 {
		t.Fatal("a node is suspect before anything has happened")
	}
	if !p.s.Add(p.now, shard0, 0) || p.s.Add(p.now, shard0, 0) {
		t.Error("only the first time-out makes a node suspect")
	}
	sent := p.pings(time.Minute)
	if n := len(sent); n < 60 || n > 90 || !p.s.Has(p.now, shard0) {
		t.Errorf("%d pings in a minute, want about one a second; suspect %v", n, p.s.Has(p.now, shard0))
	}
	p.answer(sent[len(sent)-1])
	if p.s.Has(p.now, shard0) || len(p.pings(time.Second)) > 0 {
		t.Error("it has answered, and is still suspect")
	}
}

func TestAnAnswerToAPingFromBeforeTheSuspicionSaysNothing(t *testing.T) {
	p := pinger{s: &Suspects{}, now: Now{Mono: 1}}
	p.s.Add(p.now, shard0, 0)
	late := p.pings(5 * time.Millisecond)[0]
	p.answer(late)
	p.s.Add(p.now, shard0, 0)
	p.answer(late)
	if !p.s.Has(p.now, shard0) {
		t.Error("an answer from before the time-out has ended the suspicion")
	}
	p.answer(p.pings(5 * time.Millisecond)[0])
	if p.s.Has(p.now, shard0) {
		t.Error("it has answered, and is still suspect")
	}
}

func TestANodeThatAnswersOnlyPingsIsAvoidedForAWhileAfterEachTimeOut(t *testing.T) {
	p := pinger{s: &Suspects{}, now: Now{Mono: 1}}
	for range 3 {
		p.s.Add(p.now, shard0, time.Second)
		p.answer(p.pings(5 * time.Millisecond)[0])
		if p.pings(900 * time.Millisecond); !p.s.Has(p.now, shard0) {
			t.Error("it is asked again at once")
		}
		if p.pings(200 * time.Millisecond); p.s.Has(p.now, shard0) {
			t.Error("it is still suspect")
		}
	}
	p.s.Add(p.now, shard0, time.Second)
	p.answer(p.pings(5 * time.Millisecond)[0])
	p.s.Add(p.now, shard0, time.Second) // the answer to a request that was sent before
	if p.pings(2 * time.Second); !p.s.Has(p.now, shard0) {
		t.Error("a second time-out without an answer since then counts for nothing")
	}
}

func TestALinkThatComesUpIsTriedAtOnce(t *testing.T) {
	p := pinger{s: &Suspects{}, now: Now{Mono: 1}}
	p.s.Add(p.now, shard0, 0)
	p.pings(time.Minute)
	p.s.LinkUp(p.now, shard0)
	if len(p.pings(5*time.Millisecond)) != 1 {
		t.Error("no ping was sent")
	}
}

func TestBackoffsGrowToALimitAndDiffer(t *testing.T) {
	differ := map[int64]bool{}
	for seed := range uint64(20) {
		for attempt, want := range []time.Duration{1e9, 2e9, 3e9, 3e9, 3e9} {
			got := Backoff(time.Second, 3*time.Second, attempt, seed)
			if got > int64(want) || got < int64(want)*3/4 {
				t.Errorf("attempt %d of seed %d: %v, want three quarters to all of %v", attempt, seed,
					time.Duration(got), want)
			}
			differ[got] = true
		}
	}
	if len(differ) < 90 {
		t.Errorf("%d different waits of 100", len(differ))
	}
}

func TestAShardThatDoesNotAnswerIsGoneRoundAndItsNeighborsOnlyUntilTheyAnswer(t *testing.T) {
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 2},
		{Name: "b", Ring: 1, Coordinators: 1, Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}, {Name: "s", DCs: []topology.DC{1}}},
		[][]float64{{0, 50}, {50, 0}})
	if err != nil {
		t.Fatal(err)
	}
	r := NewRoutes(topo, 0)
	p := pinger{s: &r.Suspects, now: Now{Mono: 1}}
	var of [2]topology.Slot // a slot of each shard
	for s := range topology.Slots {
		of[topo.Owner(0, topology.Slot(s)).Index] = topology.Slot(s)
	}
	nearest := func(shard int) topology.RingID {
		ring, _ := r.Nearest(p.now, of[shard], topo.AllRings())
		return ring
	}
	r.TimedOut(p.now, shard0)
	if nearest(0) != 1 || nearest(1) != 1 || r.Ms(p.now, 0) < unreachableMs {
		t.Error("after a time-out the data center is not avoided")
	}
	for _, m := range p.pings(5 * time.Millisecond) {
		if m.To == shard1 {
			p.answer(m)
		}
	}
	if nearest(0) != 1 || nearest(1) != 0 || r.Ms(p.now, 0) >= unreachableMs {
		t.Error("shard 1 answers, shard 0 does not, and reads do not follow")
	}
	pings := p.pings(time.Minute)
	if nearest(0) != 1 {
		t.Error("a shard that never answered is tried again")
	}
	p.answer(pings[len(pings)-1])
	if nearest(0) != 0 {
		t.Error("a shard that answers again is not read from")
	}
	r.TimedOut(p.now, shard1)
	fewer := *topo
	fewer.DCs = append([]topology.DataCenter(nil), topo.DCs...)
	fewer.DCs[0].Shards = 1
	if r.SetTopology(&fewer); p.s.find(shard1) != nil || p.s.find(shard0) == nil {
		t.Error("of two suspects, the one that the topology does not have is to be forgotten")
	}
}
