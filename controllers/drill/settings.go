package drill

import (
	"fmt"
	"slices"
	"time"
)

// Settings are the times and limits of a run.
type Settings struct {
	// Baseline and After are how long the store is watched before the faults and after everything has healed, Injection
	// how long the faults last.
	Baseline, Injection, After time.Duration
	// InjectTimeout bounds how long experiments may take to be injected, and pods to stop: those of edges finish
	// requests for half a minute. HealTimeout bounds each step of the healing, FinalTimeout the final reads.
	InjectTimeout, HealTimeout, FinalTimeout time.Duration
	// Poll is how often canaries and the store are asked.
	Poll time.Duration
	// ErrorBudget is the share of failed operations of clients that are not hit, over BudgetWindow, above which a run
	// is aborted.
	ErrorBudget  float64
	BudgetWindow time.Duration
	// RemoveLeftovers removes what Chaos Mesh leaves behind.
	RemoveLeftovers bool
	// Sidecars says whether there are canaries with a sidecar.
	Sidecars SidecarMode
	// Force runs in spite of what preflight says, as far as that is safe to ignore.
	Force bool
}

// DefaultSettings take less than four minutes.
func DefaultSettings() Settings {
	return Settings{Baseline: 15 * time.Second, Injection: time.Minute, After: 15 * time.Second,
		InjectTimeout: time.Minute, HealTimeout: time.Minute,
		FinalTimeout: 30 * time.Second, Sidecars: SidecarsIfPossible, Poll: time.Second, ErrorBudget: 0.25,
		BudgetWindow: 10 * time.Second}
}

// SidecarMode says whether there are canaries with a sidecar.
type SidecarMode string

// Modes: without sidecars if there can be none, not at all without, never with.
const (
	SidecarsIfPossible SidecarMode = "auto"
	SidecarsRequired   SidecarMode = "required"
	SidecarsOff        SidecarMode = "off"
)

// String describes the settings that matter to who judges a run.
func (s *Settings) String() string {
	text := fmt.Sprintf(
		"%s before the faults, %s of faults, %s after; at most %g%% of the operations elsewhere may fail within %s",
		s.Baseline, s.Injection, s.After, 100*s.ErrorBudget, s.BudgetWindow)
	if s.Force {
		text += "; --force"
	}
	return text
}

// mostInjection bounds how long faults last: they end by themselves, and nobody may watch.
const mostInjection = 30 * time.Minute

// Check returns what is wrong with the settings.
func (s *Settings) Check() error {
	switch {
	case s.Baseline <= 0 || s.After < 0 || s.Injection <= 0:
		return fmt.Errorf("baseline %s, injection %s, after %s: use times above 0", s.Baseline, s.Injection, s.After)
	case s.Injection > mostInjection:
		return fmt.Errorf("injection %s: at most %s", s.Injection, mostInjection)
	case !slices.Contains([]SidecarMode{SidecarsIfPossible, SidecarsRequired, SidecarsOff}, s.Sidecars):
		return fmt.Errorf("canaries with a sidecar: %q; use auto, required or off", s.Sidecars)
	case s.ErrorBudget < 0 || s.ErrorBudget > 1:
		return fmt.Errorf("error budget %g: give a share from 0 to 1", s.ErrorBudget)
	}
	return nil
}

// experimentDuration is when experiments end by themselves: after the time in which the run ends them.
func (s *Settings) experimentDuration() time.Duration { return s.Injection + s.InjectTimeout + s.Poll }

// Longest bounds a run. Locks, canaries and keys expire after it.
func (s *Settings) Longest() time.Duration {
	return s.Baseline + s.experimentDuration() + 4*s.HealTimeout + s.After + s.FinalTimeout + 5*time.Minute
}
