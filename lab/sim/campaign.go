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

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// CampaignConfig selects the seeds that a campaign runs.
type CampaignConfig struct {
	// From is the first seed, Seeds the number of seeds.
	From, Seeds uint64
	// Profile is the name of the profile; empty: seed n runs profile n modulo the number of profiles.
	Profile string
	// Workers is the number of seeds that run in parallel, each in one goroutine; 0: one for each processor.
	Workers int
	Broken  causal.Mutations
	// Progress, if not nil, is called after every seed, by one goroutine at a time.
	Progress func(CampaignReport)
}

// CampaignReport aggregates the outcomes of the seeds.
type CampaignReport struct {
	Seeds      uint64 // run so far
	Ops, Steps int
	Messages   uint64
	Faults     FaultCounts
	Members    MemberCounts
	Elapsed    time.Duration
	// Failed counts the seeds with violations; Failures holds those with the smallest seeds.
	Failed   int
	Failures []Failure
}

// Failure is a seed with violations. Run with the same profile and seed reproduces it.
type Failure struct {
	Profile    string
	Seed       uint64
	Violations []string
	// History is a short part of the history that shows the first violation; empty if no history shows it.
	History history.History
}

// maxFailures bounds the failures in a report.
const maxFailures = 10

// SeedsPerSecond returns the rate of the campaign.
func (r *CampaignReport) SeedsPerSecond() float64 {
	return float64(r.Seeds) / max(r.Elapsed.Seconds(), 1e-9)
}

// Campaign runs many seeds in parallel and aggregates the outcomes. When ctx is cancelled, it reports on the seeds that
// have finished.
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

// rotation returns the profile of each seed.
func (cfg *CampaignConfig) rotation() (func(seed uint64) Profile, error) {
	if cfg.Profile == "" {
		return func(seed uint64) Profile { return profiles[seed%uint64(len(profiles))] }, nil
	}
	p, err := ProfileNamed(cfg.Profile)
	return func(uint64) Profile { return p }, err
}

// ProfileOf returns the profile of a seed.
func (cfg *CampaignConfig) ProfileOf(seed uint64) (Profile, error) {
	of, err := cfg.rotation()
	if err != nil {
		return Profile{}, err
	}
	return of(seed), nil
}

// runRecovered runs a seed. A panic is a violation of that seed and does not stop the campaign.
func runRecovered(p Profile, seed uint64, broken causal.Mutations, checker *history.Checker) (o Outcome) {
	defer func() {
		if r := recover(); r != nil {
			*checker = history.Checker{}
			o = Outcome{Profile: p.Name, Seed: seed,
				Violations: []string{fmt.Sprintf("panic: %v\n%s", r, debug.Stack())}}
		}
	}()
	return Run(p, seed, broken, checker)
}

// summary aggregates the outcomes of all workers.
type summary struct {
	mu       sync.Mutex
	start    time.Time
	total    CampaignReport
	failed   []Outcome // those with the smallest seeds, sorted
	progress func(CampaignReport)
}

func (s *summary) add(o Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.total
	t.Seeds++
	t.Ops, t.Steps, t.Messages = t.Ops+o.Ops, t.Steps+o.Steps, t.Messages+o.Messages
	t.Faults.Add(&o.Faults)
	t.Members.Add(&o.Members)
	if len(o.Violations) > 0 {
		t.Failed++
		at, _ := slices.BinarySearchFunc(s.failed, o.Seed, func(f Outcome, seed uint64) int {
			return cmp.Compare(f.Seed, seed)
		})
		s.failed = slices.Insert(s.failed, at, o)
		s.failed = s.failed[:min(len(s.failed), maxFailures)]
	}
	t.Elapsed = time.Since(s.start)
	if s.progress != nil {
		s.progress(*t)
	}
}

// report returns the report, with shortened histories of the failures.
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
