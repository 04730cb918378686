package sim

import (
	"github.com/causalstore/causalstore/lab/sim/groups"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// groupFaults maps the faults that package groups injects to those of this package.
var groupFaults = [groups.NumFaults]InjectedFault{
	groups.CrashMember:     Crash,
	groups.CutPair:         Cut,
	groups.CutMember:       Isolate,
	groups.CutRegister:     CutRegister,
	groups.SlowDisk:        SlowDisk,
	groups.HungDisk:        HungDisk,
	groups.BreakLink:       LinkBreak,
	groups.Resize:          GroupResize,
	groups.WipeVolume:      EmptyDisk,
	groups.FlipBit:         BitFlip,
	groups.PauseMember:     Pause,
	groups.SwapVolumes:     VolumeSwap,
	groups.RestoreRegister: RegisterRestore,
	groups.LoseMessage:     LinkLoss,
	groups.DelayMessage:    LinkStuck,
	groups.RepeatMessage:   Duplicate,
	groups.UnknownSwap:     UnknownSwap,
	groups.CutJoiner:       CutJoiner,
	groups.GiveUp:          LogGivenUp,
}

// runGroup runs a seed of the profile of groups. Its operations are the records that were appended.
func runGroup(seed uint64, broken causal.Mutations) Outcome {
	g := groups.Run(seed, broken)
	o := Outcome{Profile: "groups", Seed: seed, Ops: g.Appends, Steps: g.Steps, Messages: g.Messages,
		Violations: g.Violations}
	o.Report.Stats.Puts = g.Commits
	for f, n := range g.Faults {
		o.Faults[groupFaults[f]] += n
	}
	return o
}
