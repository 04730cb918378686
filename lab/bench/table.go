package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// table is rows of figures for a terminal or a Markdown page.
type table struct {
	title string
	// note explains the figures below the title.
	note string
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// mergeRepeated blanks what the first columns repeat of the row above.
func (t *table) mergeRepeated(columns int) {
	for i := len(t.rows) - 1; i > 0; i-- {
		for c := 0; c < columns && t.rows[i][c] == t.rows[i-1][c]; c++ {
			t.rows[i][c] = ""
		}
	}
}

// dropEmptyColumns removes the columns that have no figure.
func (t *table) dropEmptyColumns() {
	for c := len(t.head) - 1; c >= 0; c-- {
		if slices.ContainsFunc(t.rows, func(row []string) bool { return row[c] != "" && row[c] != "-" }) {
			continue
		}
		t.head = slices.Delete(t.head, c, c+1)
		for i, row := range t.rows {
			t.rows[i] = slices.Delete(row, c, c+1)
		}
	}
}

// text prints the table for a terminal.
func (t *table) text(out io.Writer) {
	fmt.Fprintf(out, "\n%s\n", t.title)
	if t.note != "" {
		fmt.Fprintf(out, "%s\n", t.note)
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{upper(t.head)}, t.rows...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // to a terminal
}

func upper(head []string) []string {
	out := make([]string, len(head))
	for i, h := range head {
		out[i] = strings.ToUpper(h)
	}
	return out
}

// markdown prints the table as Markdown.
func (t *table) markdown(out io.Writer) {
	if t.note != "" {
		fmt.Fprintf(out, "%s\n\n", t.note)
	}
	row := func(cells []string) { fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | ")) }
	row(t.head)
	marks := make([]string, len(t.head))
	for i := range marks {
		marks[i] = "---"
	}
	row(marks)
	for _, r := range t.rows {
		row(r)
	}
	fmt.Fprintln(out)
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

// percents prints shares and their deviation as percentages.
func (s summary) percents() string {
	switch s.Rounds {
	case 0:
		return "-"
	case 1:
		return percent(s.Mean)
	}
	return fmt.Sprintf("%.1f ±%.1f %%", 100*s.Mean, 100*s.Deviation)
}

// ms prints a number of milliseconds.
func ms(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
