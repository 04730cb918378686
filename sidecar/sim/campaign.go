package sim

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/history"
)

// CampaignConfig says which seeds a campaign plays.
type CampaignConfig struct {
	// From is the first seed, Seeds their number.
	From, Seeds uint64
	// Profile is the name of the profile; empty: seed n plays profile n modulo their number.
	Profile string
	// Workers play seeds side by side, each world in one goroutine; 0: one for each processor.
	Workers int
	Broken  causal.Faults
	// Progress, if set, is told after every seed; never by two goroutines at once.
	Progress func(CampaignReport)
}

// CampaignReport adds up what the seeds did.
type CampaignReport struct {
	Seeds      uint64 // played
	Ops, Steps int
	Messages   uint64
	Harms      Harms
	Elapsed    time.Duration
	// Failed counts the seeds with violations; Failures are the first of them, by seed.
	Failed   int
	Failures []Failure
}

// Failure is one seed with violations. Run(profile, seed) plays it again, exactly.
type Failure struct {
	Profile    string
	Seed       uint64
	Violations []string
	// History is a short part of the history that shows the first violation; empty if that is not in the history.
	History history.History
}

// maxFailures bounds the failures that are kept.
const maxFailures = 10

// SeedsPerSecond is the speed of the campaign.
func (r *CampaignReport) SeedsPerSecond() float64 {
	return float64(r.Seeds) / max(r.Elapsed.Seconds(), 1e-9)
}

// Campaign plays many seeds side by side and adds up the outcomes. When ctx ends, it returns what has been played.
func Campaign(ctx context.Context, cfg CampaignConfig) (CampaignReport, error) {
	profileOf, err := cfg.rotation()
	if err != nil {
		return CampaignReport{}, err
	}
	workers := cfg.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	sum := summary{start: time.Now(), progress: cfg.Progress}
	seeds := make(chan uint64)
	var done sync.WaitGroup
	for range workers {
		done.Go(func() {
			var checker history.Checker
			for seed := range seeds {
				sum.add(runRecovered(profileOf(seed), seed, cfg.Broken, &checker))
			}
		})
	}
	for i := uint64(0); i < cfg.Seeds && ctx.Err() == nil; i++ {
		select {
		case seeds <- cfg.From + i:
		case <-ctx.Done():
		}
	}
	close(seeds)
	done.Wait()
	return sum.report(), nil
}

func (cfg *CampaignConfig) rotation() (func(seed uint64) Profile, error) {
	if cfg.Profile == "" {
		return func(seed uint64) Profile { return profiles[seed%uint64(len(profiles))] }, nil
	}
	p, err := ProfileNamed(cfg.Profile)
	return func(uint64) Profile { return p }, err
}

// runRecovered plays a seed; a broken invariant that panics is a violation of that seed, and not the end of all.
func runRecovered(p Profile, seed uint64, broken causal.Faults, checker *history.Checker) (o Outcome) {
	defer func() {
		if r := recover(); r != nil {
			*checker = history.Checker{}
			o = Outcome{Profile: p.Name, Seed: seed, Violations: []string{fmt.Sprintf("panic: %v\n%s", r, debug.Stack())}}
		}
	}()
	return Run(p, seed, broken, checker)
}

// summary adds up outcomes as workers bring them.
type summary struct {
	mu       sync.Mutex
	start    time.Time
	total    CampaignReport
	failed   []Outcome // the first by seed
	progress func(CampaignReport)
}

func (s *summary) add(o Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.total
	t.Seeds++
	t.Ops, t.Steps, t.Messages = t.Ops+o.Ops, t.Steps+o.Steps, t.Messages+o.Messages
	t.Harms.Add(&o.Harms)
	if len(o.Violations) > 0 {
		t.Failed++
		at, _ := slices.BinarySearchFunc(s.failed, o.Seed, func(f Outcome, seed uint64) int { return cmp.Compare(f.Seed, seed) })
		s.failed = slices.Insert(s.failed, at, o)
		s.failed = s.failed[:min(len(s.failed), maxFailures)]
	}
	t.Elapsed = time.Since(s.start)
	if s.progress != nil {
		s.progress(*t)
	}
}

// report shortens the histories of the failures that are shown.
func (s *summary) report() CampaignReport {
	s.total.Elapsed = time.Since(s.start)
	for _, o := range s.failed {
		f := Failure{Profile: o.Profile, Seed: o.Seed, Violations: o.Violations}
		if len(o.Report.Violations) > 0 {
			f.History = history.Shorten(o.History, o.Report.Violations[0])
		}
		s.total.Failures = append(s.total.Failures, f)
	}
	return s.total
}
