package bench

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Report is what an experiment prints: text for a terminal, and a page of Markdown with charts.
type Report struct {
	// title and setting are the head of the text; closing is its end. Caption begins the caption of charts.
	title, setting, closing, caption string
	chapters                         []chapter
	page                             page
}

// page is what the Markdown has in place of title and setting.
type page struct {
	// file is the name of the file.
	file, title, intro, command, setting string
}

// chapter is a part of a report.
type chapter struct {
	title string
	// text is what to look for; only the page has it, and the charts.
	text    string
	figures []figure
	tables  []*table
	// lines are below the tables.
	lines []string
}

// figure is a chart of the report.
type figure struct {
	// name is the file name without extension.
	name, title string
	svg         []byte
	// spread explains the error bars.
	spread string
}

// report returns a report whose page has the same head as the text.
func (o Origin) report(name, title, setting string, chapters ...chapter) *Report {
	setting = o.String() + "\n" + setting
	return &Report{title: title, setting: setting, chapters: chapters, page: page{file: name + ".md", title: title,
		intro:   "This page is written by the command below; [benchmarks.md](../benchmarks.md) says how to read it.",
		command: o.Command, setting: setting}}
}

// inTurn says how systems that take turns were measured.
func inTurn(rounds int, seconds float64) string {
	return fmt.Sprintf("%d rounds of %.1f s each way in turn; median (least..greatest)", rounds, seconds)
}

// tablesIn makes a chapter of each table.
func tablesIn(tables ...*table) (chapters []chapter) {
	for _, t := range tables {
		chapters = append(chapters, chapter{title: t.title, tables: []*table{t}})
	}
	return chapters
}

// Text prints the report for a terminal.
func (r *Report) Text(out io.Writer) {
	fmt.Fprintf(out, "\n%s\n%s\n", r.title, r.setting)
	for _, c := range r.chapters {
		for _, t := range c.tables {
			t.text(out)
		}
		if len(c.tables) == 0 && len(c.lines) > 0 {
			fmt.Fprintf(out, "\n%s\n", c.title)
		}
		for _, line := range c.lines {
			fmt.Fprintln(out, line)
		}
	}
	if r.closing != "" {
		fmt.Fprintf(out, "\n%s\n", r.closing)
	}
}

// Files returns the page and its charts, by file name.
func (r *Report) Files() map[string][]byte {
	files := map[string][]byte{}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n%s\n\n```\n$ %s\n```\n\n%s\n\n", r.page.title, r.page.intro, r.page.command,
		r.page.setting)
	for _, c := range r.chapters {
		fmt.Fprintf(&b, "## %s\n\n", c.title)
		if c.text != "" {
			fmt.Fprintf(&b, "%s\n\n", c.text)
		}
		for _, f := range c.figures {
			files[f.name+".svg"] = f.svg
			fmt.Fprintf(&b, "![%s](%s.svg)\n\n*%s; %s*\n\n", f.title, f.name, r.caption, f.spread)
		}
		for _, t := range c.tables {
			if t.title != c.title && len(c.tables) > 1 {
				fmt.Fprintf(&b, "### %s\n\n", t.title)
			}
			t.markdown(&b)
		}
		for _, line := range c.lines {
			fmt.Fprintf(&b, "* %s\n", line)
		}
	}
	files[r.page.file] = append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
	return files
}

// Write writes the page and its charts into a directory, which it creates if necessary.
func (r *Report) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	for name, content := range r.Files() {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}
