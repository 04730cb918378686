package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// figure is a chart of the report.
type figure struct {
	// name is that of its file, without the ending.
	name, title string
	svg         []byte
	// spread says what error bars are.
	spread string
}

const (
	deviations = "bars: standard deviation over the rounds"
	single     = "one run"
)

// Report is a page and its pictures, by file name.
func (p *Paper) Report() map[string][]byte {
	files := map[string][]byte{}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Karma's evaluation, repeated\n\n"+
		"What T. Mahmood et al. measured of Karma (*Achieving Causal Consistency under Partial Replication for Geo-distributed "+
		"Cloud Storage*, Purdue\n"+
		"TR-ECE 475, 2016, sections 5 and 6), measured of this data plane. This page and its pictures are written by the command "+
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

// caption says of a figure where it comes from.
func (p *Paper) caption(f figure) string {
	return fmt.Sprintf("%s; commit %s; `%s`; %d rounds; %s", p.Machine, p.Commit, p.Command, p.Rounds, f.spread)
}

func (p *Paper) settingList(b *bytes.Buffer) {
	fmt.Fprintf(b, "* Machine: %s. Commit: %s. Date: %s. It took %.0f minutes; other work had %.2f of the cores meanwhile.\n",
		p.Machine, p.Commit, p.Date, p.TookSeconds/60, p.OthersCores)
	fmt.Fprintf(b, "* %d data centres in %d rings, all on this machine: one process for each scheme, real logs and storage, the "+
		"WAN between data centres emulated.\n", p.DataCenters, p.Rings)
	fmt.Fprintf(b, "* Load: %d clients unless said otherwise, each a session, in a closed loop with %.3g ms of thought; keys "+
		"drawn zipfian (%.2f) from %d, of %d bytes; %.0f %% reads.\n",
		p.Clients, p.ThinkMs, p.Theta, p.Keys, p.ValueBytes, 100*p.ReadRatio)
	fmt.Fprintf(b, "* Before anything is measured, every data centre reads %.2g times as many keys as there are, so that the "+
		"caches are warm. It is thrown away.\n", p.WarmReads)
	fmt.Fprintf(b, "* The schemes of a section run at a time and are loaded in turn, %d rounds of %.2g s or a part of it, so that "+
		"what the machine does to one it does to all. "+
		"Ratios are taken round by round. ± is the standard deviation.\n\n", p.Rounds, p.Seconds)
}

// WriteReport writes the report into a folder, which is made if it is missing.
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
