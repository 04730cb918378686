package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// Time and state:
//
//	advance 50ms             advances the time
//	settle                   waits until every accepted write is complete, and all nodes know it
//	show convergence         whether all rings hold the same
//	show storage x           the value in each ring, or tombstone
//	show key x               what each part has of a key: stored, staged, incomplete, copied, own writes
//	show backfill            the shards that get their data back: where from, and whether nobody has them
//	show session alice       the rings it may read, the number of in-flight versions it has read, and of its incomplete writes
//	show pending             the number of incomplete writes of each coordinator
//	show adoptions           of each silent origin, how many writes its adopter knows, how many it has with their past, and how many are in all rings
//	show cache use1          the number of copies in the cache
//	check                    what the checker finds in the history of all sessions
func init() {
	verbs["advance"] = (*scenario).advance
	verbs["settle"] = (*scenario).settle
	verbs["show"] = (*scenario).show
	verbs["check"] = (*scenario).check
}

func (s *scenario) advance(args []string) (string, error) {
	d, err := time.ParseDuration(args[0])
	if err == nil {
		s.world.Run(d, nil)
	}
	return "", err
}

func (s *scenario) settle([]string) (string, error) {
	if !s.world.Run(convergenceTimeout, s.world.isQuiescent) {
		return "", fmt.Errorf("writes are incomplete after %s%s", convergenceTimeout, s.workload.unfinishedWork())
	}
	s.world.Run(time.Second, nil)
	return "", nil
}

func (s *scenario) show(args []string) (string, error) {
	switch {
	case args[0] == "convergence":
		if len(s.world.compareRings()) > 0 {
			return "the rings differ", nil
		}
		return "the rings agree", nil
	case args[0] == "storage" && len(args) == 2:
		return s.showStorage(args[1]), nil
	case args[0] == "key" && len(args) == 2:
		return s.showKey(s.key(args[1])), nil
	case args[0] == "session" && len(args) == 2 && s.sessions[args[1]] != nil:
		return s.showSession(s.sessions[args[1]]), nil
	case args[0] == "pending":
		return s.showPending(), nil
	case args[0] == "cut" && len(args) == 2:
		return s.showCut(args[1])
	case args[0] == "coordinators":
		return s.coordinatorStates(), nil
	case args[0] == "backfill":
		return s.showBackfills(), nil
	case args[0] == "withdrawn":
		return s.showWithdrawn(), nil
	case args[0] == "shards":
		return s.shardStates(), nil
	case args[0] == "adoptions":
		return s.showAdoptions(), nil
	case args[0] == "members":
		return s.memberStates(topology.Middleman), nil
	case args[0] == "coordinator-members":
		return s.memberStates(topology.Coordinator), nil
	case args[0] == "copies":
		return s.differences(), nil
	case args[0] == "cache" && len(args) == 2:
		return s.showCache(args[1])
	}
	return "", fmt.Errorf("cannot show %v", args)
}

func (s *scenario) showStorage(name string) string {
	key := s.key(name)
	var parts []string
	for r := range s.rings {
		owner := s.world.process(s.topo.Owner(topology.RingID(r), topology.SlotOf(key)))
		text := "nothing"
		if rec, found := owner.disk.records[key]; found {
			text = shownValue(rec)
			switch {
			case rec.Value.Tombstone:
				text = "tombstone"
			case isGone(rec.Value):
				text = "expired"
			}
		}
		parts = append(parts, s.rings[r].Name+" "+text)
	}
	return strings.Join(parts, ", ")
}

// showKey shows what each part has of a key.
func (s *scenario) showKey(key string) string {
	var lines []string
	for _, n := range s.world.order {
		if is := s.trace.state(n, key, s.trace.versions); is != "" {
			lines = append(lines, s.trace.node(n.id)+": "+is)
		}
	}
	return orNothing(strings.Join(lines, "\n"))
}

func (s *scenario) showBackfills() string {
	var all []string
	for _, n := range s.world.order {
		if m := n.shard(); m == nil || m.Serving() == nil {
			continue
		}
		b, ok := n.shard().Serving().Backfill()
		if !ok {
			continue
		}
		text := fmt.Sprintf("%s/%d is %s", s.dcs[n.id.DC].Name, n.id.Index, b.Stage)
		if b.NobodyHas {
			text += ", and nobody has the data"
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

func (s *scenario) showSession(p *client) string {
	var st session.Status
	withMachine(s.world, p.sidecar, func(m *session.Sidecar, _ causal.Now) { st = m.Status(p.id) })
	var rings []string
	for r := range s.rings {
		if st.Rings.Has(topology.RingID(r)) {
			rings = append(rings, s.rings[r].Name)
		}
	}
	state := "unbound"
	if st.Restrictions > 0 {
		state = fmt.Sprintf("bound to %s by %d in-flight", strings.Join(rings, " or "), st.Restrictions)
	}
	return fmt.Sprintf("%s, %d incomplete writes", state, st.IncompleteWrites)
}

func (s *scenario) showPending() string {
	var parts []string
	for _, n := range s.world.order {
		if c := n.coordinator(); c != nil {
			writes, _ := c.Pending()
			parts = append(parts, fmt.Sprintf("%s %d", s.dcs[n.id.DC].Name, writes))
		}
	}
	return strings.Join(parts, ", ")
}

func (s *scenario) showCache(name string) (string, error) {
	dc, err := s.dc(name)
	if err != nil {
		return "", err
	}
	text := "down"
	withMachine(s.world, topology.Node{DC: dc, Part: topology.Cache}, func(m *cache.Cache, _ causal.Now) {
		entries, _ := m.Size()
		text = fmt.Sprintf("%d copies", entries)
	})
	return text, nil
}

func (s *scenario) check([]string) (string, error) {
	s.workload.resolveMissing()
	report := history.Check(s.workload.history, history.Options{})
	var kinds []string
	violations, err := s.world.dataCenterViolations(s.workload.history)
	if err != nil {
		return "", err
	}
	for _, v := range violations {
		kinds = append(kinds, string(v.Kind))
	}
	kinds = append(kinds, s.workload.awaitViolations()...)
	if len(s.world.unreadable) > 0 {
		kinds = append(kinds, "unreadable value")
	}
	if report.OK() && len(kinds) == 0 {
		return "causal+", nil
	}
	for _, v := range report.Violations {
		kinds = append(kinds, string(v.Kind))
	}
	slices.Sort(kinds)
	return "VIOLATED: " + strings.Join(slices.Compact(kinds), ", "), nil
}
