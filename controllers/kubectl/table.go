package kubectl

import (
	"bytes"
	"io"
	"strings"
	"text/tabwriter"
)

// table is a list of rows with aligned columns. Rows may have fewer cells than others.
type table [][]string

func (t *table) row(cells ...string) { *t = append(*t, cells) }

func (t table) write(w io.Writer) error {
	columns := 0
	for _, r := range t {
		columns = max(columns, len(r))
	}
	var b bytes.Buffer
	tabs := tabwriter.NewWriter(&b, 0, 4, 3, ' ', 0)
	for _, r := range t {
		// tabwriter aligns only rows with the same number of cells.
		if _, err := io.WriteString(tabs, strings.Join(r, "\t")+strings.Repeat("\t", columns-len(r))+"\n"); err != nil {
			return err
		}
	}
	if err := tabs.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}
