package docs_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// rewrite writes the list of mutations.
var rewrite = flag.Bool("rewrite", false, "write docs/protocol/mutations.md")

const (
	protocolFolder = "docs/protocol/"
	protocolStart  = protocolFolder + "README.md"
	mutationsPage  = protocolFolder + "mutations.md"
	scenarios      = "lab/sim/testdata/"
)

// maxPageWords bounds a page of the protocol: what can be read in a quarter of an hour.
const maxPageWords = 3000

// rule is a rule of the protocol: a section of a page in docs/protocol whose title begins with its id.
type rule struct {
	id, title, page string
	anchor          string
	shownBy         []string // names of mutations, scenarios and tests
}

var (
	ruleTitle = regexp.MustCompile(`^### (([A-Z]+)-(\d+)) (.+)$`)
	shownBy   = regexp.MustCompile(`^\*Shown by:\* (.+)$`)
	pageRow   = regexp.MustCompile(`^\| \[[\w-]+\.md\]\(([\w-]+\.md)\) \| ?([A-Z]*) ?\|`)
)

// protocolPages returns the pages that the first one lists, in its order, with the prefix of the ids of their rules.
// The first page itself has the prefix PRO.
func (r *repository) protocolPages() (pages, prefixes []string) {
	pages, prefixes = []string{protocolStart}, []string{"PRO"}
	for _, l := range r.document(protocolStart).lines {
		if m := pageRow.FindStringSubmatch(l.text); m != nil {
			pages, prefixes = append(pages, protocolFolder+m[1]), append(prefixes, m[2])
		}
	}
	return pages, prefixes
}

// rules returns the rules of all pages, in the order of pages.
func (r *repository) rules() (rules []rule) {
	pages, _ := r.protocolPages()
	for _, page := range pages {
		d := r.document(page)
		if d == nil {
			continue
		}
		var current *rule
		for _, l := range d.lines {
			if l.fenced {
				continue
			}
			if heading.MatchString(l.text) {
				current = nil
			}
			if m := ruleTitle.FindStringSubmatch(l.text); m != nil {
				rules = append(rules, rule{id: m[1], title: m[4], page: page,
					anchor: slug(strings.TrimPrefix(l.text, "### "))})
				current = &rules[len(rules)-1]
			}
			if m := shownBy.FindStringSubmatch(l.text); m != nil && current != nil {
				for _, name := range inlineCode.FindAllStringSubmatch(m[1], -1) {
					current.shownBy = append(current.shownBy, name[1])
				}
			}
		}
	}
	return rules
}

func TestEveryPageOfTheProtocolIsListedAndShort(t *testing.T) {
	r := loadRepository(t)
	pages, _ := r.protocolPages()
	for _, d := range r.documents {
		if !strings.HasPrefix(d.path, protocolFolder) || d.path == mutationsPage {
			continue
		}
		if !slices.Contains(pages, d.path) {
			t.Errorf("%s does not list %s", protocolStart, d.path)
		}
		if words := len(strings.Fields(r.files[d.path])); words > maxPageWords {
			t.Errorf("%s has %d words, and a page has %d at most: split it by subject", d.path, words, maxPageWords)
		}
	}
}

func TestEveryRuleHasAnIdOfItsPage(t *testing.T) {
	r := loadRepository(t)
	pages, prefixes := r.protocolPages()
	seen, numbers := map[string]bool{}, map[string]int{}
	for _, rule := range r.rules() {
		prefix, _, _ := strings.Cut(rule.id, "-")
		if want := prefixes[slices.Index(pages, rule.page)]; prefix != want {
			t.Errorf("%s has the rule %s, and ids of that page begin with %s", rule.page, rule.id, want)
		}
		if seen[rule.id] {
			t.Errorf("%s has two rules %s: give one the next number of the page", rule.page, rule.id)
		}
		seen[rule.id] = true
		numbers[prefix]++
	}
	if len(numbers) < 20 {
		t.Errorf("found only %d pages with rules", len(numbers))
	}
}

// protocolCitation is how code and scenarios cite pages and rules: "PROTOCOL MM-3", "PROTOCOL MM-5, CAC".
var protocolCitation = regexp.MustCompile(`PROTOCOL ([A-Z]+(?:-\d+)?(?:, [A-Z]+(?:-\d+)?)*)\b`)

func TestEveryRuleThatIsCitedExists(t *testing.T) {
	r, checked := loadRepository(t), 0
	_, prefixes := r.protocolPages()
	known := map[string]bool{}
	for _, prefix := range prefixes {
		known[prefix] = prefix != ""
	}
	for _, rule := range r.rules() {
		known[rule.id] = true
	}
	for name, text := range r.files {
		if name == "docs/protocol_test.go" {
			continue
		}
		cited := ruleIDs(text, prefixes)
		if strings.Contains(text, "PROTOCOL") {
			text = commentBreak.ReplaceAllString(text, " ")
			for _, m := range protocolCitation.FindAllStringSubmatch(text, -1) {
				cited = append(cited, strings.Split(m[1], ", ")...)
			}
		}
		slices.Sort(cited)
		for _, id := range slices.Compact(cited) {
			if checked++; !known[id] {
				t.Errorf("%s cites %s, which no page of %s has", name, id, protocolFolder)
			}
		}
		if strings.Contains(text, "PROTOCOL §") {
			t.Errorf("%s cites a section by its number: cite a rule, as PROTOCOL MM-3, or a page, as PROTOCOL MM", name)
		}
	}
	if checked < 300 {
		t.Errorf("found only %d citations", checked)
	}
}

// ruleIDs returns what looks like an id of a rule: one of the prefixes, a hyphen and a number. A regular expression
// would take seconds for all texts.
func ruleIDs(text string, prefixes []string) (ids []string) {
	isDigit := func(i int) bool { return i < len(text) && '0' <= text[i] && text[i] <= '9' }
	for hyphen := range len(text) {
		if text[hyphen] != '-' || !isDigit(hyphen+1) {
			continue
		}
		begin, end := hyphen, hyphen+1
		for begin > 0 && 'A' <= text[begin-1] && text[begin-1] <= 'Z' {
			begin--
		}
		for isDigit(end) {
			end++
		}
		if prefix := text[begin:hyphen]; prefix != "" && slices.Contains(prefixes, prefix) {
			ids = append(ids, text[begin:end])
		}
	}
	return ids
}

// TestRulesAndMutationsNameEachOther compares "Shown by" with the rules in the tables of mutations.
func TestRulesAndMutationsNameEachOther(t *testing.T) {
	r := loadRepository(t)
	mutations := map[string]causal.MutationInfo{}
	for _, f := range causal.MutationInfos() {
		mutations[f.Name] = f
	}
	shown := map[string][]string{} // rules, by mutations
	for _, rule := range r.rules() {
		for _, name := range rule.shownBy {
			if _, ok := mutations[name]; ok {
				shown[name] = append(shown[name], rule.id)
			}
		}
	}
	for _, f := range causal.MutationInfos() {
		a, b := slices.Sorted(slices.Values(f.Rules())), slices.Sorted(slices.Values(shown[f.Name]))
		if !slices.Equal(a, b) {
			t.Errorf("the mutation %s breaks the rules %v by its table, and shows %v by %s", f.Name, a, b, protocolFolder)
		}
	}
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

func TestWhatShowsARuleExists(t *testing.T) {
	r := loadRepository(t)
	exists := map[string]bool{}
	for _, f := range causal.MutationInfos() {
		exists[f.Name] = true
	}
	for name, text := range r.files {
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range testFunction.FindAllStringSubmatch(text, -1) {
				exists[m[1]] = true
			}
		}
		if path.Dir(name)+"/" == scenarios {
			exists[path.Base(name)] = true
		}
	}
	for _, rule := range r.rules() {
		for _, name := range rule.shownBy {
			if !exists[name] {
				t.Errorf("%s: rule %s is shown by %s, which is no mutation, scenario or test",
					rule.page, rule.id, name)
			}
		}
	}
}

// notShown introduces the list of rules that nothing shows.
const notShown = "Rules that nothing shows by itself:"

func TestTheRulesThatNothingShowsAreListed(t *testing.T) {
	r := loadRepository(t)
	var want, got []string
	for _, rule := range r.rules() {
		if len(rule.shownBy) == 0 {
			want = append(want, fmt.Sprintf("[%s](%s#%s)", rule.id, path.Base(rule.page), rule.anchor))
		}
	}
	lines := r.document(protocolStart).lines
	i := slices.IndexFunc(lines, func(l line) bool { return strings.HasPrefix(l.text, notShown) })
	if i < 0 {
		t.Fatalf("%s has no line %q", protocolStart, notShown)
	}
	list := strings.TrimSuffix(strings.TrimSpace(strings.TrimPrefix(lines[i].text, notShown)), ".")
	if list != "" {
		got = strings.Split(list, ", ")
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s should say: %s %s.", protocolStart, notShown, strings.Join(want, ", "))
	}
}

// TestTheListOfMutationsIsCurrent compares the page with what the tables of mutations say. -rewrite writes it.
func TestTheListOfMutationsIsCurrent(t *testing.T) {
	r := loadRepository(t)
	rules := map[string]rule{}
	for _, rule := range r.rules() {
		rules[rule.id] = rule
	}
	byPart := map[string][]causal.MutationInfo{}
	for _, f := range causal.MutationInfos() {
		byPart[f.Part] = append(byPart[f.Part], f)
	}
	var b strings.Builder
	b.WriteString("# Mutations\n\nEach breaks one or several rules, so that a test can see the checks detect it. " +
		"[Checking](../checking.md#mutations) says how.\nThis page is written by `go test ./docs -rewrite`, " +
		"from the tables in `sidecar/causal/mutation_*.go`.\n")
	for _, part := range slices.Sorted(maps.Keys(byPart)) {
		fmt.Fprintf(&b, "\n## %s\n\n| mutation | what the broken part does | rules | profile |\n"+
			"| --- | --- | --- | --- |\n",
			strings.ToUpper(part[:1])+part[1:])
		for _, f := range byPart[part] {
			var links []string
			for _, id := range f.Rules() {
				links = append(links, fmt.Sprintf("[%s](%s#%s)", id, path.Base(rules[id].page), rules[id].anchor))
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, f.What, strings.Join(links, ", "), f.Profile)
		}
	}
	if *rewrite {
		if err := os.WriteFile("../"+mutationsPage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if r.files[mutationsPage] != b.String() {
		t.Errorf("%s is not current: run go test ./docs -rewrite and commit what it changes", mutationsPage)
	}
}
