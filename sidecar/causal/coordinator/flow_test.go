package coordinator

import (
	"testing"
	"time"
)

// With a fixed number of puts in flight, the round trip would bound the rate: 1,024 and 163 ms make 6,300 puts a
// second.
func TestALongRoundTripDoesNotBoundTheRateOfALane(t *testing.T) {
	m := newShardModel(t, 1, 163*time.Millisecond, 0)
	m.put(0, 60_000)
	took := m.until("60,000 puts", m.isComplete)
	t.Logf("60,000 puts over a round trip of 163 ms took %v", took)
	if took > 3*time.Second {
		t.Errorf("60,000 puts over a round trip of 163 ms took %v; want less than 3 s", took)
	}
	if m.again > 0 {
		t.Errorf("%d puts were sent again", m.again)
	}
}

func TestAShardThatTakesPutsSlowlyIsKeptBusyAndNotFlooded(t *testing.T) {
	const n, perPut = 30_000, 200 * time.Microsecond // 5,000 puts a second
	m := newShardModel(t, 1, 163*time.Millisecond, perPut)
	m.put(0, n)
	took := m.until("all puts", m.isComplete)
	t.Logf("took %v; at most %d puts waited at the shard; %d were sent again", took, m.maxQueue, m.again)
	if took > n*perPut*3/2 {
		t.Errorf("it took %v, and the shard had work for %v", took, n*perPut)
	}
	if m.maxQueue > 5_000 { // a second's worth
		t.Errorf("%d puts waited at the shard", m.maxQueue)
	}
	if m.again > 0 {
		t.Errorf("%d puts were sent again, though none was lost", m.again)
	}
}

// The backlog of one coordinator must not make the puts of another one wait for all of it.
func TestCoordinatorsShareAShard(t *testing.T) {
	m := newShardModel(t, 3, 100*time.Millisecond, 200*time.Microsecond)
	m.put(0, 40_000)
	m.put(1, 40_000)
	for range 600 { // six seconds
		m.put(2, 1)
		m.advance(10 * time.Millisecond)
	}
	a, b, light := m.coordinators[0], m.coordinators[1], m.coordinators[2]
	t.Logf("two with a backlog: %d and %d puts; the third one's slowest put took %v", a.completed, b.completed,
		light.slowest)
	if a.completed < b.completed/3 || b.completed < a.completed/3 {
		t.Errorf("%d and %d puts of two coordinators with the same backlog", a.completed, b.completed)
	}
	if light.completed < 400 || light.slowest > 2*time.Second {
		t.Errorf("%d puts of a coordinator with few, the slowest took %v", light.completed, light.slowest)
	}
}

func TestWhatIsInFlightToAShardIsBounded(t *testing.T) {
	for _, coordinators := range []int{1, 16} {
		m := newShardModel(t, coordinators, time.Second, 0)
		for i := range coordinators {
			m.coordinators[i].c.cfg.Window, m.coordinators[i].c.cfg.ShardWindow = 2<<20, 4<<20
			for _, l := range m.coordinators[i].c.laneOrder {
				l.flow.setMax(m.coordinators[i].c.windowBound())
			}
			m.put(i, 40_000/coordinators)
		}
		most := 0
		m.until("all puts", func() bool {
			sum := 0
			for _, x := range m.coordinators {
				for _, l := range x.c.laneOrder {
					sum += l.flow.inFlight
				}
			}
			most = max(most, sum)
			return m.isComplete()
		})
		t.Logf("%d coordinators: at most %d bytes in flight", coordinators, most)
		if bound := min(coordinators*(2<<20), 4<<20); most > bound || most < bound/2 {
			t.Errorf("%d coordinators had %d bytes in flight, want up to %d", coordinators, most, bound)
		}
	}
}

func TestAPutThatIsLargerThanTheWindowIsSentAlone(t *testing.T) {
	f := newFlow(1000, 0)
	if !f.admits(5000) {
		t.Fatal("it is never sent")
	}
	f.inFlight = 5000
	if f.admits(1) {
		t.Error("another put is sent beside it")
	}
}
