package causal

import "testing"

func TestClockNeverRepeatsAndNeverGoesBack(t *testing.T) {
	var c Clock
	last := HLC(0)
	for i, wall := range []int64{1000, 1000, 5000, 200, 200, 5001} {
		h, ok := c.Next(Now{WallMs: wall}, 0, 10_000)
		if !ok || h <= last {
			t.Fatalf("step %d: %v after %v", i, h, last)
		}
		last = h
	}
	if last.WallMs() != 5001 {
		t.Errorf("the clock stands at %d ms, want 5001: it must follow the wall clock again", last.WallMs())
	}
}

func TestClockPassesWhatItIsShownAndRefusesWhatIsTooFarAhead(t *testing.T) {
	var c Clock
	now := Now{WallMs: 100_000}
	h, ok := c.Next(now, HLCAt(105_000), 10_000)
	if !ok || h <= HLCAt(105_000) {
		t.Errorf("after 105 s: %v, %v", h, ok)
	}
	if h, ok := c.Next(now, HLCAt(110_001), 10_000); ok {
		t.Errorf("a timestamp 10.001 s ahead was taken: %v", h)
	}
	// A backward jump of the wall clock does not make the past the future.
	if _, ok := c.Next(Now{WallMs: 0}, HLCAt(105_000), 10_000); !ok {
		t.Error("after a backward jump a timestamp that was fine before was refused")
	}
}

func TestClockNeverIssuesWhatItHasShown(t *testing.T) {
	var c Clock
	shown := c.Peek(Now{WallMs: 7000})
	if h, _ := c.Next(Now{WallMs: 7000}, 0, 10_000); h <= shown {
		t.Errorf("issued %v, at or below %v which was shown", h, shown)
	}
}

func TestTimestampsOfOthersAreBelievedUpToABoundThatNeverGoesBack(t *testing.T) {
	var l TimeLimit
	if got, want := l.At(Now{Mono: 1e9, WallMs: 5000}), HLCAt(5000+MaxAheadMs); got != want {
		t.Errorf("limit %d, want %d", got, want)
	}
	// The wall clock jumps back by 4 s while 2 s pass.
	if got, want := l.At(Now{Mono: 3e9, WallMs: 3000}), HLCAt(7000+MaxAheadMs); got != want {
		t.Errorf("limit %d after a jump back, want %d", got, want)
	}
	if got, want := l.At(Now{Mono: 4e9, WallMs: 90_000}), HLCAt(90_000+MaxAheadMs); got != want {
		t.Errorf("limit %d after a jump forward, want %d", got, want)
	}
}
