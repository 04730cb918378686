package coordinator

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestVectorsArePublishedOftenWhileSomebodyWritesAndRarelyAfterASilence(t *testing.T) {
	cfg := Config{PublishEvery: time.Millisecond, IdleEvery: 10 * time.Millisecond, QuietEvery: time.Second,
		QuietAfter: 5 * time.Second}
	now := causal.Now{Mono: 1e9, WallMs: 1000}
	a := activity{periods: &cfg, publishAt: now.Mono}
	expect := func(what string, want time.Duration) {
		t.Helper()
		if got := time.Duration(a.nextPublication(now) - now.Mono); got != want {
			t.Errorf("%s: publishes after %v, want %v", what, got, want)
		}
	}
	expect("nobody has written", cfg.QuietEvery)
	a.noteActivity(now, 5)
	expect("another one has written", cfg.IdleEvery)
	a.progress = true
	a.noteOwnActivity(now)
	expect("a write was acknowledged here", cfg.PublishEvery)
	if !a.notePublished(now) || a.notePublished(now) {
		t.Error("progress is published once")
	}
	expect("it is published", cfg.IdleEvery)
	now.Mono += int64(cfg.QuietAfter)
	a.noteActivity(now, 5) // heard already
	a.notePublished(now)
	expect("a silence", cfg.QuietEvery)
	a.stayActive(now)
	expect("a part has started", cfg.IdleEvery)
}
