package bench

import (
	"fmt"
	"strings"
)

// What error bars of charts are.
const (
	deviations = "bars: standard deviation over the rounds"
	single     = "one run"
)

// Report has the figures beside those of the paper.
func (p *Paper) Report() *Report {
	return &Report{
		title: "Karma's evaluation on this machine", setting: p.setting(), chapters: p.chapters(),
		closing: "The paper: 64 machines, Cassandra, 500 million records. Here all data centers share one machine's " +
			"processors, and fewer\nkeys make cache hits more likely and let reads meet in-flight writes more often.",
		caption: fmt.Sprintf("%s; commit %s; `%s`; %d rounds", p.Machine, p.Commit, p.Command, p.Rounds),
		page: page{file: "README.md", title: "Karma's evaluation, repeated", command: p.Command,
			setting: p.pageSetting(),
			intro: "What T. Mahmood et al. measured of Karma (*Achieving Causal Consistency under Partial " +
				"Replication for Geo-distributed Cloud Storage*, Purdue\nTR-ECE 475, 2016, sections 5 and 6), " +
				"measured of this data plane. This page and its pictures are written by the command below; what " +
				"they mean\nis in [benchmarks.md](../benchmarks.md)."},
	}
}

// setting describes what was measured, and on what.
func (p *Paper) setting() string {
	failed := ""
	for _, u := range p.Unmeasured {
		failed += "\nNot measured: " + u
	}
	return fmt.Sprintf(
		"%s; commit %s; %s\n%s\n%d data centers in %d rings with emulated WAN; zipfian %.2f over %d keys of %d "+
			"bytes; warmed by %.2g times\n"+
			"as many reads in each data center; closed loop with %.3g ms of think time; %d rounds of up to "+
			"%.2g s, in turn: "+
			"mean ±standard deviation.\n"+
			"Took %.0f s; other processes used %.2f cores meanwhile.",
		p.Machine, p.Commit, p.Date, p.Command, p.DataCenters, p.Rings, p.Theta, p.Keys, p.ValueBytes,
		p.WarmReads, p.ThinkMs,
		p.Rounds, p.Seconds, p.TookSeconds, p.OthersCores) + failed
}

// pageSetting describes the same on the page, with the schemes.
func (p *Paper) pageSetting() string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"* Machine: %s. Commit: %s. Date: %s. The evaluation took %.0f minutes; other processes used %.2f "+
			"cores meanwhile.\n",
		p.Machine, p.Commit, p.Date, p.TookSeconds/60, p.OthersCores)
	fmt.Fprintf(&b,
		"* %d data centers in %d rings, all on this machine: one process per scheme, real logs and storage, and an "+
			"emulated WAN between data centers.\n", p.DataCenters, p.Rings)
	fmt.Fprintf(&b,
		"* Load: %d clients unless stated otherwise, each a session, in a closed loop with %.3g ms of think time; "+
			"zipfian (%.2f) over %d keys of %d bytes; %.0f %% reads.\n",
		p.Clients, p.ThinkMs, p.Theta, p.Keys, p.ValueBytes, 100*p.ReadRatio)
	fmt.Fprintf(&b,
		"* To warm the caches, every data center first makes %.2g times as many reads as there are keys. They do not "+
			"count.\n", p.WarmReads)
	fmt.Fprintf(&b,
		"* The schemes of a section run at the same time and are loaded in turn, in %d rounds of up to "+
			"%.2g s, so that "+
			"changes of the machine affect all of them alike. "+
			"Ratios are computed round by round. ± is the standard deviation.\n\n", p.Rounds, p.Seconds)
	schemes := &table{head: []string{"Scheme", "", "Flags of `causalstore local`"}}
	for _, s := range p.Schemes {
		schemes.add(s.Name, s.About, "`"+strings.Join(s.Flags, " ")+"`")
	}
	schemes.markdown(&b)
	return strings.TrimRight(b.String(), "\n")
}
