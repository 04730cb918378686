// Package docs holds the pages of the documentation that programs show.
package docs

import (
	_ "embed" // for runbooks
	"strings"
)

//go:embed runbooks.md
var runbooks string

// Runbook returns a section of the runbooks as Markdown, without its heading; false if there is none of that name.
// Names are those of alerts.
func Runbook(name string) (text string, ok bool) {
	for section := range strings.SplitSeq(runbooks, "\n## ") {
		heading, text, _ := strings.Cut(section, "\n")
		if heading == name {
			return strings.TrimSpace(text), true
		}
	}
	return "", false
}
