package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Report has the tables, and what the checker says of what clients have seen.
func (f *Faults) Report() *Report {
	chapters := tablesIn(f.phaseTable("during", "During the fault"), f.releaseTable(), f.healTable(),
		f.phaseTable("after", "After the heal"), f.phaseTable("before", "Before the fault"))
	histories := chapter{title: "Histories", text: "The checker has judged what all clients saw, with reads of every " +
		"key in every data center at the end."}
	for _, c := range f.Cases {
		histories.lines = append(histories.lines, c.Title+": "+c.History)
	}
	r := f.report("faults", "When a part fails", f.setting(), append(chapters, histories)...)
	r.page.intro = "This page is written by the command below; [benchmarks.md](../benchmarks.md#when-a-part-fails) " +
		"says how to read it."
	return r
}

func (f *Faults) setting() string {
	reads := "latest"
	if f.Snapshot {
		reads = "snapshot"
	}
	return fmt.Sprintf(
		"other processes used %.2f cores meanwhile; parts of %s fail.\n%d data centers in %d rings with emulated "+
			"WAN, one process; %.0f operations per second of %d clients in each data center;\n%.0f %% reads "+
			"(--reads %s), %d keys of %d bytes, all alike popular; session scope %s; members %d; "+
			"each fault lasts %.3g s.",
		f.OthersCores, f.DC, f.DataCenters, f.Rings, f.Rate, f.Connections, 100*f.ReadRatio, reads, f.Keys,
		f.ValueBytes, f.Scope, f.Members, f.During)
}

// phaseTable shows one phase of all faults.
func (f *Faults) phaseTable(phase, title string) *table {
	t := &table{title: title, head: []string{"Fault", "Clients", "Failed reads", "p50 / p99 / max ms", "Gap s", "Local",
		"Failed writes", "p50 / p99 / max ms",
		"Gap s"}}
	for _, c := range f.Cases {
		for _, p := range c.Phases {
			if p.Phase == phase {
				t.add(slices.Concat([]string{c.Title, p.Clients}, p.Reads.cells(),
					[]string{fmt.Sprintf("%.0f %%", 100*p.Local)}, p.Writes.cells())...)
			}
		}
	}
	t.mergeRepeated(1)
	return t
}

func (o *FaultOps) cells() []string {
	failed := fmt.Sprintf("0 of %d", o.OK)
	if o.Failed > 0 {
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(o.Errors)) {
			kinds = append(kinds, fmt.Sprintf("%d %s", o.Errors[kind], kind))
		}
		failed = fmt.Sprintf("%s of %d", strings.Join(kinds, ", "), o.OK+o.Failed)
	}
	return []string{failed, fmt.Sprintf("%s / %s / %s", ms(o.P50Ms), ms(o.P99Ms), ms(o.MaxMs)),
		fmt.Sprintf("%.1f", o.GapSeconds)}
}

// releaseTable shows how long the faults have bound sessions.
func (f *Faults) releaseTable() *table {
	t := &table{title: "Until nobody is bound by a write from before the fault", note: "Seconds since the fault began.",
		head: []string{"Fault", "Sessions unbound"}}
	for _, c := range f.Cases {
		unbound := "not while it lasted"
		if c.Released != nil {
			unbound = fmt.Sprintf("%.1f", *c.Released)
		}
		t.add(c.Title, unbound)
	}
	return t
}

// healTable shows how long heals took.
func (f *Faults) healTable() *table {
	t := &table{title: "From the heal until everything is normal", note: "Seconds since the heal began.",
		head: []string{"Fault", "Last failed operation", "Writes complete", "Sessions unbound", "Lost data back",
			"Reads local", "Normal"}}
	for _, c := range f.Cases {
		h := c.Heal
		failed, refilled, normal := "-", "-", fmt.Sprintf("%.1f", h.Normal)
		if h.LastError > 0 {
			failed = fmt.Sprintf("%.1f", h.LastError)
		}
		if h.LookedUpKeys > 0 {
			refilled = fmt.Sprintf("%.1f (%d keys, %d bytes)", h.Refilled, h.LookedUpKeys, h.CopiedBytes)
		}
		if !h.Recovered {
			normal = fmt.Sprintf("not within %.1f", h.Normal)
		}
		t.add(c.Title, failed, fmt.Sprintf("%.1f", h.Complete), fmt.Sprintf("%.1f", h.Unbound), refilled,
			fmt.Sprintf("%.1f", h.Local), normal)
	}
	return t
}
