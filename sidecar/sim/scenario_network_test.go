package sim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// The network. A node is use1.coordinator, use1.middleman/1, use1.cache, a session's name for its sidecar, use1 for all of a
// data centre, or *.
//
//	hold H KINDS FROM TO [KEY]   keeps messages back that are sent from now on; KINDS is put-after,put-ack or *
//	seal H                       keeps no more; what was kept stays back
//	release H                    sends what was kept, and holds nothing more
//	drop H                       forgets what was kept, and holds nothing more
//	lose H KINDS FROM TO [KEY]   loses them, until: drop H
//	cut A B      heal            cuts two data centres off from each other, or two nodes; heals all cuts
func init() {
	verbs["hold"] = func(s *scenario, args []string) (string, error) { return s.hold(args, false) }
	verbs["lose"] = func(s *scenario, args []string) (string, error) { return s.hold(args, true) }
	verbs["seal"] = (*scenario).seal
	verbs["release"] = (*scenario).release
	verbs["drop"] = (*scenario).drop
	verbs["cut"] = (*scenario).cut
	verbs["heal"] = func(s *scenario, _ []string) (string, error) { s.world.net.heal(); return "", nil }
}

// nodes returns what tells whether a node is meant by a pattern.
func (s *scenario) nodes(pattern string) (func(topology.Node) bool, error) {
	if pattern == "*" {
		return func(topology.Node) bool { return true }, nil
	}
	if p := s.sessions[pattern]; p != nil {
		return func(n topology.Node) bool { return n == p.sidecar }, nil
	}
	place, part, _ := strings.Cut(pattern, ".")
	part, index, given := strings.Cut(part, "/")
	dc, err := s.dc(place)
	if err != nil {
		return nil, err
	}
	parts := map[string]topology.Part{"coordinator": topology.Coordinator, "middleman": topology.Middleman, "cache": topology.Cache, "": topology.PartNone}
	want, known := parts[part]
	if !known {
		return nil, fmt.Errorf("there is no part %q", part)
	}
	return func(n topology.Node) bool {
		return n.DC == dc && (want == topology.PartNone || n.Part == want) && (!given || strconv.FormatUint(n.Index, 10) == index)
	}, nil
}

func (s *scenario) hold(args []string, lose bool) (string, error) {
	if len(args) < 4 {
		return "", fmt.Errorf("give a name, kinds, from and to")
	}
	from, err := s.nodes(args[2])
	if err != nil {
		return "", err
	}
	to, err := s.nodes(args[3])
	if err != nil {
		return "", err
	}
	kinds := map[string]bool{}
	for k := range strings.SplitSeq(args[1], ",") {
		kinds[k] = true
	}
	key, hash := "", uint64(0)
	if len(args) > 4 {
		key = s.key(args[4])
		hash = topology.Hash(key)
	}
	h := &hold{drop: lose, match: func(m *causal.Message) bool {
		return (kinds["*"] || kinds[m.Kind.String()]) && from(m.From) && to(m.To) && (key == "" || m.Key == key || m.Hash == hash)
	}}
	s.holds[args[0]] = h
	s.world.net.holds = append(s.world.net.holds, h)
	return "", nil
}

func (s *scenario) seal(args []string) (string, error) {
	h := s.holds[args[0]]
	if h == nil {
		return "", fmt.Errorf("nothing is held as %q", args[0])
	}
	h.full = true
	return "", nil
}

// end takes a hold away.
func (s *scenario) end(name string) (*hold, error) {
	h := s.holds[name]
	if h == nil {
		return nil, fmt.Errorf("nothing is held as %q", name)
	}
	delete(s.holds, name)
	kept := s.world.net.holds[:0]
	for _, other := range s.world.net.holds {
		if other != h {
			kept = append(kept, other)
		}
	}
	s.world.net.holds = kept
	return h, nil
}

func (s *scenario) release(args []string) (string, error) {
	h, err := s.end(args[0])
	if err != nil {
		return "", err
	}
	if len(h.kept) == 0 {
		return "nothing was held", nil
	}
	for _, m := range h.kept {
		s.world.net.transmit(m)
	}
	return "", nil
}

func (s *scenario) drop(args []string) (string, error) {
	_, err := s.end(args[0])
	return "", err
}

func (s *scenario) cut(args []string) (string, error) {
	a, err := s.nodes(args[0])
	if err != nil {
		return "", err
	}
	b, err := s.nodes(args[1])
	if err != nil {
		return "", err
	}
	for _, m := range s.world.order {
		for _, n := range s.world.order {
			if m != n && a(m.id) && b(n.id) {
				s.world.net.cutPair(m.id, n.id, 1)
			}
		}
	}
	return "", nil
}
