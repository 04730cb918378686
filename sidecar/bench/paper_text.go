package bench

import (
	"fmt"
	"io"
)

// Text prints the figures, with those of the paper beside them.
func (p *Paper) Text(out io.Writer) {
	fmt.Fprintf(out, "\nKarma's evaluation on this machine\n%s\n", p.setting())
	for _, c := range p.chapters() {
		for _, t := range c.tables {
			t.text(out)
		}
	}
	fmt.Fprintf(out, "\nThe paper: 64 machines, Cassandra, 500 million records. Here all data centres share one machine's "+
		"processors, and fewer\n"+
		"keys make hits more likely and let reads meet writes under way more often.\n")
}

// setting says what was measured, and on what.
func (p *Paper) setting() string {
	failed := ""
	for _, u := range p.Unmeasured {
		failed += "\nNot measured: " + u
	}
	return fmt.Sprintf("%s; commit %s; %s\n%s\n%d data centres in %d rings with emulated WAN; zipfian %.2f over %d keys of %d "+
		"bytes, each data centre has read %.2g times\n"+
		"that many before; closed loop with %.3g ms of thought; %d rounds of %.2g s or a part of it, in turn: mean ±standard "+
		"deviation.\n"+
		"Took %.0f s, while other work had %.2f of the cores.",
		p.Machine, p.Commit, p.Date, p.Command, p.DataCenters, p.Rings, p.Theta, p.Keys, p.ValueBytes, p.WarmReads, p.ThinkMs,
		p.Rounds, p.Seconds, p.TookSeconds, p.OthersCores) + failed
}
