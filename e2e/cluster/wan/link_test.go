package wan

import (
	"strings"
	"testing"
	"time"
)

// A packet is sent, and arrives or is lost.
type sent struct {
	at      time.Duration
	size    int64
	arrives time.Duration // lost if negative
}

const lost = time.Duration(-1)

func TestALinkDelaysAndLosesPackets(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		link    Link
		packets []sent
	}{
		"delay":    {Link{Delay: 40 * ms}, []sent{{0, 1500, 40 * ms}, {ms, 60000, 41 * ms}}},
		"no delay": {Link{}, []sent{{0, 1500, 0}, {0, 1500, 0}}},
		"cut":      {Link{Delay: 40 * ms, Cut: true}, []sent{{0, 100, lost}, {time.Hour, 100, lost}}},
		"rate": {Link{Rate: 1_000_000, Queue: 100_000},
			[]sent{{0, 1000, ms}, {0, 1000, 2 * ms}, {10 * ms, 1000, 11 * ms}}},
		"rate and delay": {Link{Delay: 40 * ms, Rate: 1_000_000, Queue: 100_000},
			[]sent{{0, 50_000, 90 * ms}, {0, 50_000, 140 * ms}}},
		"full queue": {Link{Rate: 1_000_000, Queue: 100_000},
			[]sent{{0, 60_000, 60 * ms}, {0, 60_000, lost}, {0, 40_000, 100 * ms}, {50 * ms, 50_000, 150 * ms},
				{50 * ms, 1, lost}}},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Unix(0, 0)
			p := pacer{link: c.link}
			for i, s := range c.packets {
				arrival, ok := p.admit(start.Add(s.at), s.size)
				if ok != (s.arrives >= 0) || ok && arrival.Sub(start) != s.arrives {
					t.Errorf("packet %d arrives %t after %s, want %s", i, ok, arrival.Sub(start), s.arrives)
				}
			}
		})
	}
}

func TestPacketsDoNotOvertakeEachOtherWhenTheDelayShrinks(t *testing.T) {
	start := time.Unix(0, 0)
	p := pacer{link: Link{Delay: time.Second}}
	first, _ := p.admit(start, 1)
	p.link.Delay = time.Millisecond
	if second, ok := p.admit(start.Add(time.Millisecond), 1); !ok || second.Before(first) {
		t.Errorf("the second arrives at %s, the first at %s", second, first)
	}
}

func TestLinksThatCannotBeAreRefused(t *testing.T) {
	for want, l := range map[string]Link{
		"give 0 to 10s": {Delay: time.Minute}, "at least 1000": {Rate: 5, Queue: 1 << 20},
		"at least 65536": {Rate: 1 << 20, Queue: 1}, "without a rate": {Queue: 1},
	} {
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", l, err, want)
		}
	}
	if err := (Link{Delay: 40 * time.Millisecond, Rate: 1 << 20, Queue: 1 << 20}).Validate(); err != nil {
		t.Error(err)
	}
}
