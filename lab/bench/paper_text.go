package bench

import (
	"fmt"
	"io"
)

// Text prints the figures beside those of the paper.
func (p *Paper) Text(out io.Writer) {
	fmt.Fprintf(out, "\nKarma's evaluation on this machine\n%s\n", p.setting())
	for _, c := range p.chapters() {
		for _, t := range c.tables {
			t.text(out)
		}
	}
	fmt.Fprintf(out,
		"\nThe paper: 64 machines, Cassandra, 500 million records. Here all data centers share one machine's "+
			"processors, and fewer\n"+
			"keys make cache hits more likely and let reads meet in-flight writes more often.\n")
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
