package main_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/causalstore/causalstore"

// importRule restricts what the packages at and below a folder import. Folders are relative to the module.
type importRule struct {
	folder string
	// forbidden lists folders of the module whose packages must not be imported, in tests neither. "a/*" is what is
	// below a, without a.
	forbidden []string
	// onlyOurs, if not nil, lists the only packages of the module that production files may import. The most specific
	// rule with such a list applies.
	onlyOurs []string
	// onlyTheirs, if not nil, lists the only packages of other modules that production files may import; it comes with
	// onlyOurs, and bars impureImports too.
	onlyTheirs []string
	// inTests maps the forbidden packages that tests may import anyway to the reason.
	inTests map[string]string
	// excepted maps folders to the forbidden packages that production files at and below them may import anyway,
	// and why.
	excepted map[string]exception
	reason   string
}

// exception is a set of packages and the reason why they may be imported.
type exception struct {
	packages []string
	reason   string
}

// isExcepted reports whether files of a folder may import a forbidden package.
func (r *importRule) isExcepted(folder, imported string) bool {
	for of, e := range r.excepted {
		if isBelow(folder, of) && slices.Contains(e.packages, imported) {
			return true
		}
	}
	return false
}

// importRules is the direction of dependencies in this module.
var importRules = []importRule{
	{
		folder:    "sidecar",
		forbidden: []string{"lab", "history", "controllers", "e2e", "api", "charts"},
		inTests: map[string]string{
			"lab/capture":     "tests read what is logged while it is written",
			"lab/ports":       "tests choose the ports of processes",
			"lab/redisserver": "the storage and the process are tested against a real redis-server",
			"e2e/etcdserver":  "the register is tested against a real etcd",
			"lab/credentials": "tokens and signatures are verified with real certificates and trust files",
		},
		reason: "the data plane runs without the operator and without the tools that measure and check it",
	},
	{
		folder:    "lab",
		forbidden: []string{"controllers", "e2e"},
		inTests:   map[string]string{"e2e/binaries": "the cost of groups is measured with a real etcd"},
		reason:    "the tools drive the data plane directly, without the operator or a cluster",
	},
	{
		folder:    "controllers",
		forbidden: []string{"lab", "e2e"},
		inTests: map[string]string{
			"lab/local": "controllers/verify writes to and reads from a store; its test runs one in the " +
				"process of the test",
			"lab/ports":       "tests choose the ports of processes",
			"lab/credentials": "the webhook's server is tested with a certificate",
			"e2e/apiserver":   "the controllers are tested against a real API server",
			"e2e/etcdserver":  "controllers/etcd is tested with a real etcd",
		},
		excepted: map[string]exception{"controllers/drill": {[]string{"lab/canary", "lab/chart"},
			"drills watch a store with canaries, and draw what they saw; the operator " +
				"imports controllers/drill/record only"}},
		reason: "the operator is production code and uses no tools of tests",
	},
	{
		folder: "controllers/trust/acceptance", onlyOurs: []string{"contract"}, onlyTheirs: []string{},
		reason: "tests of processes use it, and each process is a copy of the test binary, which would start slower " +
			"with Kubernetes in it",
	},
	{
		folder: "controllers/outage", onlyOurs: []string{}, onlyTheirs: []string{},
		reason: "it is pure, and tests of processes do what it says is safe",
	},
	{
		folder:    "e2e/processes",
		forbidden: []string{"api", "controllers"},
		inTests: map[string]string{
			"controllers/trust/acceptance": "the reports that real processes make are judged as the " +
				"operator judges them",
			"controllers/outage": "what people are told to be safe is done to real processes"},
		reason: "each process is a copy of the test binary, which starts three times as slowly with Kubernetes in it",
	},
	{folder: "api", onlyOurs: []string{},
		reason: "clients of the resource import the API and nothing else of this module"},
	{
		folder: "contract", onlyOurs: []string{"topology"},
		reason: "the operator and the data plane both import the contract, so that it imports neither",
	},
	{
		folder: "authority", onlyOurs: []string{"contract"},
		reason: "the operator and the command line both issue certificates with it",
	},
	{
		folder: "edge", onlyOurs: []string{"contract", "authority"},
		reason: "the operator and the tools that run edges on one machine both configure them with it",
	},
	{folder: "console", onlyOurs: []string{"console/internal/npm", "docs"},
		reason: "the page knows nothing of what it shows but the snapshots that it is given, and the runbooks"},
	{folder: "topology", onlyOurs: []string{}, reason: "everything imports the topology"},
	{
		folder: "history", onlyOurs: []string{"sidecar/causal", "topology"},
		reason: "it judges the store, so that it uses nothing of the store but the vocabulary of versions",
	},
	{
		folder: "sidecar/node", forbidden: []string{"sidecar/front/*"},
		reason: "a sidecar has sessions for any front, and knows none: the process wires the two",
	},
	{
		folder: "sidecar/metrics", forbidden: []string{"sidecar/front/*"},
		reason: "the connections and commands of every front are counted in one way",
	},
	{
		folder:   "sidecar/front",
		onlyOurs: []string{"contract", "sidecar/causal", "sidecar/connlimit", "sidecar/operation"},
		reason:   "a front knows the session that it is given and the values in it, and not the sidecar that has made it",
	},
	{
		folder: "sidecar/front/resp",
		onlyOurs: []string{"contract", "sidecar/causal", "sidecar/front", "sidecar/geo", "sidecar/hyperloglog",
			"sidecar/operation", "sidecar/value"},
		reason: "a front knows the session that it is given and the values in it, and neither the sidecar that has " +
			"made it nor other fronts",
	},
	pureRule("sidecar/causal"),
	pureRule("sidecar/value", "sidecar/operation"),
	pureRule("sidecar/operation"),
	pureRule("sidecar/geo"),
	pureRule("sidecar/hyperloglog"),
	{folder: "sidecar/value/laws", onlyOurs: []string{"sidecar/causal", "topology", "sidecar/value"},
		reason: "tests of types, wherever these are, check the laws with it"},
	pureRule("sidecar/causal/keystate", "sidecar/value"),
	pureRule("sidecar/causal/session", "sidecar/causal/nearcopy", "sidecar/causal/keystate", "sidecar/operation",
		"sidecar/value"),
	pureRule("sidecar/causal/nearcopy", "sidecar/causal/keystate"),
	pureRule("sidecar/causal/coordinator", "sidecar/operation", "sidecar/value"),
	pureRule("sidecar/causal/transfer", "sidecar/causal/keystate", "sidecar/value"),
	pureRule("sidecar/causal/middleman", "sidecar/causal/keystate", "sidecar/causal/transfer", "sidecar/value"),
	pureRule("sidecar/causal/cache", "sidecar/causal/keystate"),
	pureRule("sidecar/causal/group"),
	pureRule("sidecar/causal/shard", "sidecar/causal/middleman", "sidecar/causal/transfer"),
	pureRule("sidecar/causal/member", "sidecar/causal/coordinator", "sidecar/causal/group", "sidecar/causal/transfer"),
	pureRule("sidecar/causal/process", "sidecar/causal/group", "sidecar/causal/member", "sidecar/causal/middleman",
		"sidecar/causal/shard"),
}

// pureRule is the rule for a package of the protocol core: it imports the vocabulary and the topology, and nothing that
// does I/O. What arbitrates between the values of a key, keystate, and the types of values are for all of them. The
// machines do not import each other, but for those that combine two: shard, a middleman and its mover; member, a
// coordinator and its group; and session, the sidecar and its near copies. transfer is the part of three machines that
// moves pages of records.
func pureRule(folder string, machines ...string) importRule {
	return importRule{
		folder:     folder,
		onlyOurs:   append([]string{"sidecar/causal", "topology"}, machines...),
		onlyTheirs: []string{"github.com/hashicorp/golang-lru/v2/simplelru", "github.com/cespare/xxhash/v2"},
		reason:     "the protocol is pure code, and its machines know each other by messages only",
	}
}

// impureImports are the packages of the standard library that the protocol core must not import: time, randomness,
// concurrency, files and the network are passed in.
var impureImports = []string{"context", "crypto/rand", "io", "log", "log/slog", "math/rand", "math/rand/v2", "net",
	"os", "sync", "sync/atomic"}

// violation returns why a file of a folder must not import a package, or "".
func violation(folder, imported string, test bool) string {
	ours, isOurs := strings.CutPrefix(imported, module+"/")
	var nearest importRule // the most specific rule that lists what may be imported
	for _, r := range importRules {
		if !isBelow(folder, r.folder) {
			continue
		}
		if isOurs && slices.ContainsFunc(r.forbidden, func(f string) bool { return isForbidden(ours, f) }) {
			if _, excepted := r.inTests[ours]; (!test || !excepted) && !r.isExcepted(folder, ours) {
				return r.reason
			}
		}
		if r.onlyOurs != nil && len(r.folder) > len(nearest.folder) {
			nearest = r
		}
	}
	switch {
	case test || nearest.folder == "":
	case isOurs && !slices.Contains(nearest.onlyOurs, ours):
		return nearest.reason
	case !isOurs && nearest.onlyTheirs != nil && (slices.Contains(impureImports, imported) ||
		isThirdParty(imported) && !slices.Contains(nearest.onlyTheirs, imported)):
		return nearest.reason
	}
	return ""
}

func isForbidden(name, folder string) bool {
	if above, ok := strings.CutSuffix(folder, "*"); ok {
		return strings.HasPrefix(name, above)
	}
	return isBelow(name, folder)
}

func isBelow(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }

// isThirdParty reports whether the first element of an import path is a host name.
func isThirdParty(imported string) bool {
	host, _, _ := strings.Cut(imported, "/")
	return strings.Contains(host, ".")
}

// fileImport is one import of one Go file; the file's name is relative to the module.
type fileImport struct{ file, imported string }

// moduleImports parses the imports of all Go files of the module, whatever their build tags.
func moduleImports(t *testing.T) (all []fileImport) {
	t.Helper()
	files := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := d.Name()
			_, nested := os.Stat(filepath.Join(name, "go.mod"))
			if name != "." && (base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") ||
				nested == nil) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(files, name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			all = append(all, fileImport{filepath.ToSlash(name), imported})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestImportsPointInwards(t *testing.T) {
	used := map[string]bool{}
	for _, i := range moduleImports(t) {
		folder, test := path.Dir(i.file), strings.HasSuffix(i.file, "_test.go")
		if reason := violation(folder, i.imported, test); reason != "" {
			t.Errorf("%s must not import %s: %s", i.file, i.imported, reason)
		}
		ours := strings.TrimPrefix(i.imported, module+"/")
		for _, r := range importRules {
			if _, excepted := r.inTests[ours]; excepted && test && isBelow(folder, r.folder) {
				used[r.folder+" "+ours] = true
			}
		}
	}
	for _, r := range importRules {
		for _, folder := range slices.Concat([]string{r.folder}, r.forbidden, r.onlyOurs) {
			if _, err := os.Stat(filepath.FromSlash(strings.TrimSuffix(folder, "/*"))); err != nil {
				t.Errorf("a rule names a folder that does not exist: %v", err)
			}
		}
		for imported := range r.inTests {
			if !used[r.folder+" "+imported] {
				t.Errorf("no test of %s imports %s: remove the exception", r.folder, imported)
			}
		}
	}
}

func TestImportRulesRejectWhatTheyShould(t *testing.T) {
	for _, c := range []struct {
		file, imported string
		allowed        bool
	}{
		{"sidecar/node/host.go", module + "/history", false},
		{"sidecar/node/host_test.go", module + "/history", false},
		{"sidecar/process/main.go", module + "/lab/redisserver", false},
		{"sidecar/process/process_test.go", module + "/lab/redisserver", true},
		{"sidecar/process/main.go", module + "/controllers/causalstore/plan", false},
		{"sidecar/process/main.go", module + "/contract", true},
		{"sidecar/node/clientsession.go", module + "/sidecar/front", true},
		{"sidecar/node/clientsession.go", module + "/sidecar/front/resp", false},
		{"sidecar/node/clientsession_test.go", module + "/sidecar/front/resp", false},
		{"sidecar/front/front.go", module + "/sidecar/causal", true},
		{"sidecar/front/front.go", module + "/sidecar/causal/session", false},
		{"sidecar/front/front.go", module + "/sidecar/front/resp", false},
		{"sidecar/front/resp/server.go", module + "/sidecar/front", true},
		{"sidecar/front/resp/server.go", module + "/sidecar/node", false},
		{"sidecar/process/sidecar.go", module + "/sidecar/front/resp", true},
		{"sidecar/causal/cache/cache.go", module + "/sidecar/causal/middleman", false},
		{"sidecar/causal/session/read.go", module + "/sidecar/causal/cache", false},
		{"sidecar/causal/session/read.go", module + "/sidecar/transport", false},
		{"sidecar/causal/session/read.go", module + "/sidecar/causal", true},
		{"sidecar/causal/session/read.go", module + "/sidecar/causal/keystate", true},
		{"sidecar/causal/keystate/key.go", module + "/sidecar/value", true},
		{"sidecar/causal/keystate/key.go", module + "/sidecar/causal/session", false},
		{"sidecar/causal/transfer/receiver.go", module + "/sidecar/causal/middleman", false},
		{"sidecar/value/register.go", module + "/sidecar/causal/keystate", false},
		{"sidecar/causal/session/read.go", "sync", false},
		{"sidecar/causal/session/read.go", "slices", true},
		{"sidecar/causal/session/read.go", "golang.org/x/sync/errgroup", false},
		{"sidecar/causal/cache/cache.go", "github.com/hashicorp/golang-lru/v2/simplelru", true},
		{"sidecar/causal/shard/shard.go", module + "/sidecar/causal/middleman", true},
		{"sidecar/causal/shard/shard.go", module + "/sidecar/causal/cache", false},
		{"sidecar/causal/stability.go", module + "/sidecar/causal/coordinator", false},
		{"contract/config.go", module + "/topology", true},
		{"contract/config.go", module + "/sidecar/causal", false},
		{"controllers/verify/verify.go", module + "/lab/local", false},
		{"controllers/verify/verify_test.go", module + "/lab/local", true},
		{"lab/sim/world.go", module + "/controllers/causalstore/plan", false},
		{"lab/sim/world_test.go", module + "/e2e/apiserver", false},
		{"lab/sim/world.go", module + "/sidecar/causal/shard", true},
		{"e2e/processes/certificates_test.go", module + "/controllers/trust", false},
		{"e2e/processes/acceptance_test.go", module + "/controllers/trust/acceptance", true},
		{"controllers/trust/acceptance/acceptance.go", "k8s.io/apimachinery/pkg/types", false},
		{"e2e/cluster/cluster.go", module + "/controllers/command", true},
	} {
		if allowed := violation(path.Dir(c.file), c.imported,
			strings.HasSuffix(c.file, "_test.go")) == ""; allowed != c.allowed {
			t.Errorf("%s imports %s: allowed %v, want %v", c.file, c.imported, allowed, c.allowed)
		}
	}
}
