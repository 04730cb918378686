package kubectl

import (
	"bytes"
	"io"
	"strings"
	"text/tabwriter"
)

// table is lines whose columns stand under each other, also where a line has fewer of them.
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
		// tabwriter aligns lines with the same number of cells.
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
