package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// figure is a chart of the report.
type figure struct {
	// name is the file name without extension.
	name, title string
	svg         []byte
	// spread explains the error bars.
	spread string
}

const (
	deviations = "bars: standard deviation over the rounds"
	single     = "one run"
)

// Report returns a page and its charts, by file name.
func (p *Paper) Report() map[string][]byte {
	files := map[string][]byte{}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Karma's evaluation, repeated\n\n"+
		"What T. Mahmood et al. measured of Karma (*Achieving Causal Consistency under Partial Replication for "+
		"Geo-distributed "+
		"Cloud Storage*, Purdue\n"+
		"TR-ECE 475, 2016, sections 5 and 6), measured of this data plane. This page and its pictures are written "+
		"by the command "+
		"below; what they mean\n"+
		"is in [benchmarks.md](../benchmarks.md).\n\n```\n$ %s\n```\n\n", p.Command)
	p.settingList(&b)
	fmt.Fprintf(&b, "| Scheme | | Flags of `causalstore local` |\n| --- | --- | --- |\n")
	for _, s := range p.Schemes {
		flags := ""
		for _, f := range s.Flags {
			flags += f + " "
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` |\n", s.Name, s.About, bytes.TrimSpace([]byte(flags)))
	}
	b.WriteString("\n")
	for _, c := range p.chapters() {
		fmt.Fprintf(&b, "## %s\n\n", c.title)
		if c.text != "" {
			fmt.Fprintf(&b, "%s\n\n", c.text)
		}
		for _, f := range c.figures {
			files[f.name+".svg"] = f.svg
			fmt.Fprintf(&b, "![%s](%s.svg)\n\n*%s*\n\n", f.title, f.name, p.caption(f))
		}
		for _, t := range c.tables {
			if t.title != c.title && len(c.tables) > 1 {
				fmt.Fprintf(&b, "### %s\n\n", t.title)
			}
			t.markdown(&b)
		}
	}
	files["README.md"] = append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
	return files
}

// caption tells how a figure was measured.
func (p *Paper) caption(f figure) string {
	return fmt.Sprintf("%s; commit %s; `%s`; %d rounds; %s", p.Machine, p.Commit, p.Command, p.Rounds, f.spread)
}

func (p *Paper) settingList(b *bytes.Buffer) {
	fmt.Fprintf(b,
		"* Machine: %s. Commit: %s. Date: %s. The evaluation took %.0f minutes; other processes used %.2f "+
			"cores meanwhile.\n",
		p.Machine, p.Commit, p.Date, p.TookSeconds/60, p.OthersCores)
	fmt.Fprintf(b,
		"* %d data centers in %d rings, all on this machine: one process per scheme, real logs and storage, and an "+
			"emulated WAN between data centers.\n", p.DataCenters, p.Rings)
	fmt.Fprintf(b,
		"* Load: %d clients unless stated otherwise, each a session, in a closed loop with %.3g ms of think time; "+
			"zipfian (%.2f) over %d keys of %d bytes; %.0f %% reads.\n",
		p.Clients, p.ThinkMs, p.Theta, p.Keys, p.ValueBytes, 100*p.ReadRatio)
	fmt.Fprintf(b,
		"* To warm the caches, every data center first makes %.2g times as many reads as there are keys. They do not "+
			"count.\n", p.WarmReads)
	fmt.Fprintf(b,
		"* The schemes of a section run at the same time and are loaded in turn, in %d rounds of up to "+
			"%.2g s, so that "+
			"changes of the machine affect all of them alike. "+
			"Ratios are computed round by round. ± is the standard deviation.\n\n", p.Rounds, p.Seconds)
}

// WriteReport writes the report into a directory, which it creates if necessary.
func (p *Paper) WriteReport(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	for name, content := range p.Report() {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}
