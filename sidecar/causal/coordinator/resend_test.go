package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// However long a cut lasts, what was lost is in the ring soon after it has ended.
func TestAfterACutOfAnyLengthTheLaneIsUpToDateSoon(t *testing.T) {
	const roundTrip = 100 * time.Millisecond
	for _, direction := range []string{"both", "to the shard", "from the shard"} {
		for cut := 500 * time.Millisecond; cut < 30*time.Second; cut += 1700 * time.Millisecond {
			t.Run(fmt.Sprintf("%s for %v", direction, cut), func(t *testing.T) {
				m := newShardModel(t, 1, roundTrip, 0)
				m.put(0, 10)
				m.until("puts before the cut", m.isComplete)
				m.cut()
				m.toShard, m.fromShard = direction != "from the shard", direction != "to the shard"
				m.put(0, 100)
				m.advance(cut)
				m.heal()
				if took := m.until("what was lost", m.isComplete); took > 2*time.Second+roundTrip {
					t.Errorf("%v after a cut of %v", took, cut)
				}
			})
		}
	}
}

// What was lost in a cut does not wait because newer puts get through.
func TestAfterACutWhatWasLostIsNotOvertaken(t *testing.T) {
	const roundTrip, often = 100 * time.Millisecond, 50 * time.Millisecond
	for cut := 500 * time.Millisecond; cut < 30*time.Second; cut += 1700 * time.Millisecond {
		t.Run(cut.String(), func(t *testing.T) {
			m := newShardModel(t, 1, roundTrip, 0)
			m.put(0, 10)
			m.until("puts before the cut", m.isComplete)
			m.cut()
			m.put(0, 100)
			m.advance(cut)
			m.heal()
			for range (2*time.Second + roundTrip) / often {
				m.put(0, 1)
				m.advance(often)
			}
			if n, _ := m.coordinators[0].c.Pending(); n > int(roundTrip/often)+1 {
				t.Errorf("%d puts are incomplete; the newest are on their way", n)
			}
		})
	}
}

// A lane with a large window that is cut off sends little until the shard answers, and then all of it soon, but not at
// once.
func TestALaneThatIsSilentSendsLittle(t *testing.T) {
	m := newShardModel(t, 1, 163*time.Millisecond, 0)
	m.put(0, 60_000)
	m.until("a full window", func() bool { return m.coordinators[0].c.laneOrder[0].flow.inFlight > 7<<20 })
	m.cut()
	m.advance(2 * time.Second)
	m.sentBytes, m.again = 0, 0
	m.advance(time.Minute)
	t.Logf("in a minute of silence: %d puts sent again, %d bytes", m.again, m.sentBytes)
	if m.again == 0 || m.sentBytes > 60*probeCredit {
		t.Errorf("%d bytes were sent in a minute of silence, in %d puts", m.sentBytes, m.again)
	}
	m.again = 0
	m.heal()
	took := m.until("everything", m.isComplete)
	t.Logf("after the heal: %v, %d puts sent again", took, m.again)
	if took > 6*time.Second {
		t.Errorf("after the heal it took %v", took)
	}
	if m.again > 20_000 {
		t.Errorf("%d puts were sent again; at most 16,000 were in flight", m.again)
	}
}

func TestWhatIsInFlightIsSentAgainWhenTheLinkIsUp(t *testing.T) {
	m := newShardModel(t, 1, 20*time.Millisecond, 0)
	m.cut()
	m.put(0, 10)
	m.advance(20 * time.Second)
	m.heal()
	m.coordinators[0].c.LinkUp(m.now, shardsA)
	m.exchange()
	if took := m.until("all", m.isComplete); took > 50*time.Millisecond {
		t.Errorf("after the link came up it took %v", took)
	}
	sent := m.sent
	m.coordinators[0].c.LinkUp(m.now, shardsA)
	m.exchange()
	if m.sent != sent {
		t.Error("puts were sent again although all are acknowledged")
	}
}

// Puts that wait at the shard for a dependency are not lost: they are sent again ever more rarely while others get
// through.
func TestPutsThatWaitAtTheShardAreSentAgainEverMoreRarely(t *testing.T) {
	m := newShardModel(t, 1, 20*time.Millisecond, 0)
	m.put(0, 1) // is never acknowledged
	m.advance(5 * time.Millisecond)
	m.arriving = nil
	for range 30_000 { // five minutes
		m.put(0, 1)
		for i := range m.arriving {
			if m.coordinators[0].sent[m.arriving[i].v] > 1 {
				m.arriving = append(m.arriving[:i], m.arriving[i+1:]...)
				break
			}
		}
		m.advance(10 * time.Millisecond)
	}
	t.Logf("%d puts, %d sent again", m.sent-m.again, m.again)
	if m.again < 10 || m.again > 40 {
		t.Errorf("in five minutes the one that waits was sent again %d times", m.again)
	}
}

func TestAMiddlemanThatAsksAgainAndAgainDoesNotGetEverythingEachTime(t *testing.T) {
	m := newShardModel(t, 1, 20*time.Millisecond, 0)
	m.silent = true
	m.put(0, 500)
	m.advance(20 * time.Millisecond)
	c := m.coordinators[0].c
	hello := func(incarnation uint64) int {
		m.sent = 0
		h := causal.LaneHello{Incarnation: incarnation, Map: m.topo.Map(0)}.Message(shardsA, c.cfg.Self)
		c.Step(m.now, &h)
		m.exchange()
		return m.sent
	}
	if n := hello(2); n < 400 {
		t.Errorf("a middleman that has restarted gets %d of 500 puts again", n)
	}
	if n := hello(2); n > 0 {
		t.Errorf("it asks again at once, and gets %d", n)
	}
	if n := hello(3); n < 400 {
		t.Errorf("the next incarnation gets %d", n)
	}
}

// An acknowledged put between others holds the lane together: a middleman that has lost its memory needs it as well.
func TestARestartedMiddlemanGetsAcknowledgedPutsBetweenOthersAgain(t *testing.T) {
	m := newShardModel(t, 1, 20*time.Millisecond, 0)
	m.silent = true
	m.put(0, 3)
	c := m.coordinators[0].c
	ack := causal.PutAck{Incarnation: 1, Versions: c.versions(1)}.Message(shardsA, c.cfg.Self)
	c.Step(m.now, &ack)
	m.sent = 0
	h := causal.LaneHello{Incarnation: 2, Map: m.topo.Map(0)}.Message(shardsA, c.cfg.Self)
	c.Step(m.now, &h)
	m.exchange()
	if m.sent != 3 {
		t.Errorf("%d puts were sent again, want all 3", m.sent)
	}
}

// versions returns the version of the i-th write in the buffer.
func (c *Coordinator) versions(i int) []causal.Version {
	return []causal.Version{c.writes[i].rec.Version}
}
