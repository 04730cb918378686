package transport

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// arranged returns a topology with the data centers of testTopology in some order, in two rings.
func arranged(t *testing.T, epoch uint64, order string, rings ...string) *topology.Topology {
	t.Helper()
	f := topology.File{Epoch: epoch}
	for _, name := range order {
		two := 2
		f.DataCenters = append(f.DataCenters, topology.FileDataCenter{Name: string(name), Coordinators: &two})
	}
	for i, ring := range rings {
		r := topology.FileRing{Name: string(rune('x' + i))}
		for _, name := range ring {
			r.DataCenters = append(r.DataCenters, string(name))
		}
		f.Rings = append(f.Rings, r)
	}
	top, err := f.Topology()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

func runs(top *topology.Topology, binding string) change {
	return func(c *Config, _ *timings) {
		c.Topology, c.Binding = func() *topology.Topology { return top }, binding
		c.Epoch = func() uint64 { return top.Epoch }
	}
}

func TestProcessesWithAnotherManifestRefuseEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		topology *topology.Topology
		binding  string
		says     string // empty: the link is accepted
	}{
		"the same":                 {arranged(t, 1, "abc", "ab", "c"), causal.Dynamic.String(), ""},
		"another epoch":            {arranged(t, 9, "abc", "ab", "c"), causal.Dynamic.String(), ""},
		"no binding that is known": {arranged(t, 1, "abc", "ab", "c"), "", ""},
		"reordered data centers": {arranged(t, 1, "acb", "ab", "c"), causal.Dynamic.String(),
			"another list of data centers; "},
		"one data center more": {arranged(t, 1, "abcd", "ab", "c", "d"), causal.Dynamic.String(),
			"another list of data centers, other rings; "},
		"other rings":               {arranged(t, 1, "abc", "a", "bc"), causal.Dynamic.String(), "other rings; "},
		"reordered rings":           {arranged(t, 1, "abc", "c", "ab"), causal.Dynamic.String(), "other rings; "},
		"another order in the ring": {arranged(t, 1, "abc", "ba", "c"), causal.Dynamic.String(), "other rings; "},
		"another binding":           {arranged(t, 1, "abc", "ab", "c"), causal.Static.String(), "another binding; "},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory()
			b := start(t, d, []topology.Node{middlemanB},
				runs(arranged(t, 1, "abc", "ab", "c"), causal.Dynamic.String()))
			a := start(t, d, []topology.Node{coordinatorA}, runs(c.topology, c.binding))
			a.Open(middlemanB)
			if c.says == "" {
				awaitServing(t, a, middlemanB)
				a.Send(numbered(coordinatorA, middlemanB, 1))
				b.wait(t, 1)
				if n := violationCount(b, ViolationManifest); n != 0 {
					t.Errorf("%d violations", n)
				}
				return
			}
			waitFor(t, "both sides to refuse the link several times", func() bool {
				return violationCount(a, ViolationManifest) > 2 && violationCount(b, ViolationManifest) > 2
			})
			for _, p := range []*testProcess{a, b} {
				text := p.log.String()
				if n := strings.Count(text, "violation=manifest"); n != 1 ||
					!strings.Contains(text, " runs "+c.says+"apply the same manifest in all regions") {
					t.Errorf("logged %d times: %s", n, text)
				}
			}
			if l := a.Stats().Links; len(l) != 1 || l[0].Failure != FailureOtherManifest {
				t.Errorf("the link is reported as %+v", l)
			}
			same(t, "handled", b.all(), nil)
		})
	}
}

// Origins follow the order of the data centers, so a region that has them in another order would speak for the origins
// of others.
func TestAPartWithReorderedDataCentersCannotSpeakForTheOriginsOfOthers(t *testing.T) {
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	leaderB := topology.Node{Part: topology.Coordinator, DC: 1}
	attack := newAttacker(t, ca, idOf(leaderB))
	attack.manifest = manifestOf(arranged(t, 1, "bac", "ab", "c"), "")
	s, err := attack.link(c.addr, leaderB.WithMember(1))
	if err == nil { // the hello, which says what this process runs, comes first
		err = s.RecvMsg(&receivedFrame{hello: &wire.Hello{}})
	}
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the link ends with %v", err)
	}
	if n := violationCount(c, ViolationManifest); n != 1 {
		t.Errorf("%d violations are counted", n)
	}
	attack.manifest = wire.Manifest{} // as the version before
	if _, err = attack.link(c.addr, leaderB.WithMember(1)); err != nil {
		t.Errorf("a part that does not say what it runs is refused: %v", err)
	}
	same(t, "handled", c.all(), nil)
}
