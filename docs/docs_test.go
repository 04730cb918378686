// Package docs_test checks the documentation against the repository: everything that documents and code name exists.
package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"

	operator "github.com/causalstore/causalstore/controllers/command"
	"github.com/causalstore/causalstore/controllers/kubectl"
	lab "github.com/causalstore/causalstore/lab/command"
	"github.com/causalstore/causalstore/sidecar/command"
)

// repository is what the tests look at. Paths are relative to the root of the repository, with slashes.
type repository struct {
	files     map[string]string // the content of texts, "" for other files
	dirs      map[string]bool
	baseNames map[string]bool
	documents []*document
}

// document is a Markdown file.
type document struct {
	path    string
	lines   []line
	anchors map[string]bool
	titles  []string
}

type line struct {
	number int
	text   string
	fenced bool // in a code block
}

var textFiles = []string{".go", ".md", ".txt", ".yaml", ".tpl", ".proto"}

func loadRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{files: map[string]string{}, dirs: map[string]bool{}, baseNames: map[string]bool{}}
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin"):
			return fs.SkipDir
		case d.IsDir():
			r.dirs[name] = true
			return nil
		}
		r.files[name], r.baseNames[path.Base(name)] = "", true
		if slices.Contains(textFiles, path.Ext(name)) || name == "Makefile" || name == ".ci/run" {
			b, err := os.ReadFile(filepath.Join("..", name))
			r.files[name] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range r.files {
		if path.Ext(name) == ".md" {
			r.documents = append(r.documents, parse(name, text))
		}
	}
	slices.SortFunc(r.documents, func(a, b *document) int { return strings.Compare(a.path, b.path) })
	if len(r.documents) < 10 {
		t.Fatalf("found only %d documents", len(r.documents))
	}
	return r
}

func (r *repository) document(name string) *document {
	for _, d := range r.documents {
		if d.path == name {
			return d
		}
	}
	return nil
}

func (r *repository) exists(name string) bool {
	_, isFile := r.files[name]
	return isFile || r.dirs[name]
}

var heading = regexp.MustCompile(`^#+ +(.*)$`)

func parse(name, text string) *document {
	d := &document{path: name, anchors: map[string]bool{}}
	fenced := false
	for i, s := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(s), "```") {
			fenced = !fenced
			continue
		}
		d.lines = append(d.lines, line{i + 1, s, fenced})
		if m := heading.FindStringSubmatch(s); m != nil && !fenced {
			d.titles = append(d.titles, strings.ReplaceAll(m[1], "`", ""))
			anchor := slug(m[1])
			for n := 1; d.anchors[anchor]; n++ {
				anchor = fmt.Sprintf("%s-%d", slug(m[1]), n)
			}
			d.anchors[anchor] = true
		}
	}
	return d
}

// slug returns the anchor that GitHub gives a heading.
func slug(title string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(title) {
		switch {
		case c == ' ':
			b.WriteRune('-')
		case c == '-' || c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c):
			b.WriteRune(c)
		}
	}
	return b.String()
}

var link = regexp.MustCompile(`\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)`)

func TestEveryLinkLeadsToAFileAndSectionThatExist(t *testing.T) {
	r, checked := loadRepository(t), 0
	for _, d := range r.documents {
		for _, l := range d.lines {
			for _, m := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(l.text, "code"), -1) {
				if l.fenced || strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				checked++
				name, anchor, _ := strings.Cut(m[1], "#")
				target := d.path
				if name != "" {
					target = path.Join(path.Dir(d.path), name)
				}
				if !r.exists(target) {
					t.Errorf("%s:%d: link to %s: there is no %s", d.path, l.number, m[1], target)
				} else if to := r.document(target); anchor != "" && (to == nil || !to.anchors[anchor]) {
					t.Errorf("%s:%d: link to %s: %s has no section with that anchor", d.path, l.number, m[1], target)
				}
			}
		}
	}
	if checked < 50 {
		t.Errorf("found only %d links", checked)
	}
}

// bases are the directories that a document's names of files are relative to, beside the root of the repository.
var bases = map[string][]string{
	"docs/architecture.md":       {"sidecar", "lab", "controllers"},
	"docs/operator-decisions.md": {"controllers/causalstore"},
	"docs/checking.md":           {"sidecar/storage"},
	"CONTRIBUTING.md":            {"lab/sim", "sidecar/causal"},
}

// basesOf returns the directories for a document.
func basesOf(document string) []string {
	if strings.HasPrefix(document, protocolFolder) {
		return []string{"sidecar/causal"}
	}
	return bases[document]
}

var (
	inlineCode = regexp.MustCompile("`([^`]+)`")
	sourceFile = regexp.MustCompile(`^[\w./{},*-]+\.(go|md|proto|svg)$`)
	inFolder   = regexp.MustCompile(`^(api|charts|config|contract|controllers|docs|e2e|lab|sidecar)/[\w./{},*-]+$`)
)

func TestEveryFileThatADocumentNamesExists(t *testing.T) {
	r, checked := loadRepository(t), 0
	for _, d := range r.documents {
		for _, l := range d.lines {
			for _, m := range inlineCode.FindAllStringSubmatch(l.text, -1) {
				name := m[1]
				if l.fenced || !sourceFile.MatchString(name) && !inFolder.MatchString(name) {
					continue
				}
				checked++
				for _, one := range expandBraces(name) {
					if !r.has(one, basesOf(d.path)) {
						t.Errorf("%s:%d: there is no %s", d.path, l.number, one)
					}
				}
			}
		}
	}
	if checked < 50 {
		t.Errorf("found only %d names of files", checked)
	}
}

var identifier = regexp.MustCompile(`^(?:[a-z]+|[A-Z][a-z]+)(?:[A-Z][A-Za-z0-9]*)+$`)

// TestEveryIdentifierThatDocumentsForContributorsNameExists looks for identifiers of several words in the code.
func TestEveryIdentifierThatDocumentsForContributorsNameExists(t *testing.T) {
	r, checked := loadRepository(t), 0
	words := map[string]bool{}
	for name, text := range r.files {
		if path.Ext(name) == ".go" && path.Dir(name) != "docs" {
			for _, word := range goWord.FindAllString(text, -1) {
				words[word] = true
			}
		}
	}
	for _, d := range r.documents {
		isNamed := d.path == "docs/architecture.md" || d.path == "CONTRIBUTING.md"
		if !isNamed && !strings.HasPrefix(d.path, protocolFolder) {
			continue
		}
		for _, l := range d.lines {
			if l.text == "## Style" {
				break // its examples are made up
			}
			for _, m := range inlineCode.FindAllStringSubmatch(l.text, -1) {
				if l.fenced || !identifier.MatchString(m[1]) {
					continue
				}
				if checked++; !words[m[1]] {
					t.Errorf("%s:%d: no Go file has the identifier %s", d.path, l.number, m[1])
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("found only %d identifiers", checked)
	}
}

var goWord = regexp.MustCompile(`\w+`)

// has reports whether a file or directory, or one that matches a pattern, exists in one of the directories. The name of
// a file without a directory may be in any one: documents name the directory before it.
func (r *repository) has(name string, in []string) bool {
	name = strings.TrimSuffix(name, "/")
	if !strings.Contains(name, "/") && r.baseNames[name] {
		return true
	}
	for _, dir := range append([]string{""}, in...) {
		if full := path.Join(dir, name); r.exists(full) {
			return true
		} else if matches, err := fs.Glob(os.DirFS(".."), full); err == nil && len(matches) > 0 {
			return true
		}
	}
	return false
}

func expandBraces(name string) []string {
	before, rest, ok := strings.Cut(name, "{")
	if !ok {
		return []string{name}
	}
	list, after, _ := strings.Cut(rest, "}")
	var all []string
	for one := range strings.SplitSeq(list, ",") {
		all = append(all, before+one+after)
	}
	return all
}

var (
	documentInCode = regexp.MustCompile(`\bdocs/((?:[\w-]+/)?[\w-]+\.md)(#[\w-]+)?`)
	titleAfter     = regexp.MustCompile(`^, ([\w ]+)(?:$|[^\w /])`)
)

// TestEveryDocumentThatCodeNamesExists checks names such as docs/operations.md, with an anchor, or with the title of a
// section after a comma.
func TestEveryDocumentThatCodeNamesExists(t *testing.T) {
	r, checked := loadRepository(t), 0
	for name, text := range r.files {
		if path.Ext(name) == ".md" || path.Dir(name) == "docs" {
			continue
		}
		text = literalBreak.ReplaceAllString(commentBreak.ReplaceAllString(text, " "), "")
		for _, at := range documentInCode.FindAllStringIndex(text, -1) {
			checked++
			m, title := documentInCode.FindStringSubmatch(text[at[0]:at[1]]),
				titleAfter.FindStringSubmatch(text[at[1]:])
			d := r.document("docs/" + m[1])
			switch {
			case d == nil:
				t.Errorf("%s names docs/%s, which does not exist", name, m[1])
			case m[2] != "" && !d.anchors[m[2][1:]]:
				t.Errorf("%s names %s: there is no such section", name, m[0])
			case title != nil && !d.hasTitle(title[1]):
				t.Errorf("%s names %s: no section of that document begins with %q", name, m[0], title[1])
			}
		}
	}
	if checked < 10 {
		t.Errorf("found only %d names of documents", checked)
	}
}

// hasTitle reports whether a text begins with the title of a section, whatever the case of its letters.
func (d *document) hasTitle(text string) bool {
	return slices.ContainsFunc(d.titles, func(title string) bool {
		return len(text) >= len(title) && strings.EqualFold(text[:len(title)], title)
	})
}

var (
	commentBreak = regexp.MustCompile(`\n[\t ]*//[\t ]*`)
	literalBreak = regexp.MustCompile(`" ?\+\n[\t ]*"`)
)

var (
	makeCommand = regexp.MustCompile("(?m)(?:`|^\\$? ?)make ((?:[a-z][a-z0-9-]*(?: |\\b))*)")
	makeTarget  = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
)

func TestEveryMakeTargetThatIsNamedExists(t *testing.T) {
	r, checked := loadRepository(t), 0
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(r.files["Makefile"], -1) {
		targets[m[1]] = true
	}
	for _, c := range r.commands(makeCommand) {
		for target := range strings.FieldsSeq(c.match[1]) {
			if checked++; !targets[target] {
				t.Errorf("%s: there is no make target %s", c.where, target)
			}
		}
	}
	if checked < 20 {
		t.Errorf("found only %d names of targets", checked)
	}
}

// namedCommand is a command that a document shows or a text of the code names.
type namedCommand struct {
	where string
	match []string
}

// commands finds what matches in the code of documents, inline and in blocks, and in backquotes in Go files.
func (r *repository) commands(pattern *regexp.Regexp) (found []namedCommand) {
	for _, d := range r.documents {
		for _, l := range d.lines {
			texts := []string{l.text}
			if !l.fenced {
				texts = inlineCode.FindAllString(l.text, -1)
			}
			for _, text := range texts {
				for _, m := range pattern.FindAllStringSubmatch(text, -1) {
					found = append(found, namedCommand{fmt.Sprintf("%s:%d", d.path, l.number), m})
				}
			}
		}
	}
	for name, text := range r.files {
		if path.Ext(name) != ".go" || name == "docs/docs_test.go" {
			continue
		}
		for _, text := range inlineCode.FindAllString(text, -1) {
			if strings.Contains(text, "\n") {
				continue // a raw string
			}
			for _, m := range pattern.FindAllStringSubmatch(text, -1) {
				found = append(found, namedCommand{name, m})
			}
		}
	}
	return found
}

var (
	ownCommand  = regexp.MustCompile("(?:`|^ *(?:\\$ )?)(?:bin/)?(causalstore|kubectl causal) +([^`#&;]*)")
	commandName = regexp.MustCompile(`^[a-z][a-z-]*(\|[a-z-]+)*$`)
	flagName    = regexp.MustCompile(`^--([a-z][a-z0-9-]*)`)
)

func TestEverySubcommandAndFlagThatIsNamedExists(t *testing.T) {
	root := command.NewRoot(append(lab.NewCommands(), operator.NewOperatorCommand(), operator.NewRedirectCommand(),
		operator.NewEtcdMemberCommand(), kubectl.NewCommand())...)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	r, checked := loadRepository(t), 0
	for _, c := range r.commands(ownCommand) {
		words := strings.Fields(strings.SplitN(c.match[2], " | ", 2)[0])
		if c.match[1] != "causalstore" {
			words = append([]string{"kubectl"}, words...)
		}
		at := []*cobra.Command{root}
		for _, word := range words {
			if flag := flagName.FindStringSubmatch(word); flag != nil {
				for _, cmd := range at {
					checked++
					cmd.InitDefaultHelpFlag()
					if cmd.Flag(flag[1]) == nil && cmd.InheritedFlags().Lookup(flag[1]) == nil {
						t.Errorf("%s: %s has no flag --%s", c.where, cmd.CommandPath(), flag[1])
					}
				}
				continue
			}
			if !at[0].HasSubCommands() || !commandName.MatchString(word) {
				continue
			}
			var next []*cobra.Command
			for name := range strings.SplitSeq(word, "|") {
				checked++
				i := slices.IndexFunc(at[0].Commands(), func(s *cobra.Command) bool {
					return s.Name() == name || s.HasAlias(name)
				})
				if i < 0 {
					t.Errorf("%s: %s has no subcommand %s", c.where, at[0].CommandPath(), name)
					next = nil
					break
				}
				next = append(next, at[0].Commands()[i])
			}
			if next == nil {
				break
			}
			at = next
		}
	}
	if checked < 50 {
		t.Errorf("found only %d subcommands and flags", checked)
	}
}

var (
	namedAlert   = regexp.MustCompile("`(CausalStore[A-Z]\\w+)`")
	definedAlert = regexp.MustCompile(`(?m)alert: (\w+)`)
)

func TestEveryAlertThatADocumentNamesExists(t *testing.T) {
	r, checked := loadRepository(t), 0
	alerts := map[string]bool{}
	for _, m := range definedAlert.FindAllStringSubmatch(r.files["charts/causalstore/files/alerts.yaml"], -1) {
		alerts[m[1]] = true
	}
	for _, d := range r.documents {
		for _, l := range d.lines {
			for _, m := range namedAlert.FindAllStringSubmatch(l.text, -1) {
				if checked++; !alerts[m[1]] {
					t.Errorf("%s:%d: there is no alert %s", d.path, l.number, m[1])
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("found only %d names of alerts", checked)
	}
}
