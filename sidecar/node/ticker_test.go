package node

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// tickCounter is a host that counts its ticks, and needs the next one after a time.
type tickCounter struct {
	Host
	ticks atomic.Int64
	next  time.Duration
	alarm atomic.Pointer[func(time.Duration)]
}

func (c *tickCounter) Tick() {
	c.ticks.Add(1)
	(*c.alarm.Load())(c.next)
}

func (c *tickCounter) SetAlarm(f func(time.Duration)) { c.alarm.Store(&f) }

func TestAHostIsTickedOnlyWhenItNeedsIt(t *testing.T) {
	ticker := NewTicker()
	defer ticker.Stop()
	idle, busy := &tickCounter{next: time.Hour}, &tickCounter{}
	ticker.Add(idle)
	ticker.Add(busy)
	waitUntil(t, "many ticks of the busy host", func() bool { return busy.ticks.Load() > 20 })
	if n := idle.ticks.Load(); n != 1 {
		t.Errorf("the idle host was ticked %d times", n)
	}
	(*idle.alarm.Load())(0)
	waitUntil(t, "the idle host to be ticked", func() bool { return idle.ticks.Load() == 2 })
	ticker.Remove(busy)
	(*busy.alarm.Load())(0) // must not tick it
	(*idle.alarm.Load())(0)
	waitUntil(t, "the idle host to be ticked again", func() bool { return idle.ticks.Load() == 3 })
}

// fakeMachine needs a tick at a time that the test sets.
type fakeMachine struct{ next int64 }

func (m *fakeMachine) Step(causal.Now, *causal.Message) {}
func (m *fakeMachine) Tick(causal.Now)                  {}
func (m *fakeMachine) NextTick(causal.Now) int64        { return m.next }
func (m *fakeMachine) Take(dst []causal.Message) []causal.Message {
	return dst
}

func TestAHostRaisesTheAlarmWhenAnInputNeedsAnEarlierTick(t *testing.T) {
	now := causal.Now{Mono: int64(time.Minute)}
	m := &fakeMachine{next: causal.Never}
	h := newHost(topology.Node{}, func() causal.Now { return now }, nil, m)
	var alarms []time.Duration
	h.SetAlarm(func(in time.Duration) { alarms = append(alarms, in) })
	h.Tick()
	if len(alarms) != 1 || alarms[0] != maxTickWait {
		t.Fatalf("a machine without timers is ticked after %v", alarms)
	}
	alarms = nil
	now.Mono += int64(tickInterval)
	input := func(after time.Duration, next int64) {
		now.Mono += int64(after)
		m.next = next
		h.step(func(causal.Now, *fakeMachine) {})
	}
	input(95*time.Millisecond, causal.Never)
	if len(alarms) != 0 {
		t.Fatalf("an input that needs no tick raised %v", alarms)
	}
	input(100*time.Millisecond, now.Mono+int64(300*time.Millisecond))
	if len(alarms) != 1 || alarms[0] != 200*time.Millisecond {
		t.Fatalf("a tick was needed after 200ms; the alarms are %v", alarms)
	}
	input(time.Millisecond, now.Mono) // so soon that the machine is not asked: it gets a tick at once
	if len(alarms) != 2 || alarms[1] != 0 {
		t.Fatalf("the alarms are %v", alarms)
	}
	input(time.Millisecond, now.Mono) // the tick is due
	if len(alarms) != 2 {
		t.Fatalf("the alarms are %v", alarms)
	}
}
