package sim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// The network. A node is use1.coordinator, use1.middleman/1, its member use1.middleman/1.2, use1.cache, a session's
// name for its sidecar, use1 for all of a data center, or *.
//
//	hold H KINDS FROM TO [KEY]   holds back messages that are sent from now on; KINDS is put-after,put-ack or *
//	seal H                       later messages pass; those that are held stay back
//	release H                    sends the messages that are held, and ends the hold
//	drop H                       discards the messages that are held, and ends the hold
//	lose H KINDS FROM TO [KEY]   loses messages instead, until: drop H
//	cut A B      heal            partitions two data centers or two nodes; removes all partitions
func init() {
	verbs["hold"] = func(s *scenario, args []string) (string, error) { return s.hold(args, false) }
	verbs["lose"] = func(s *scenario, args []string) (string, error) { return s.hold(args, true) }
	verbs["seal"] = (*scenario).seal
	verbs["release"] = (*scenario).release
	verbs["drop"] = (*scenario).drop
	verbs["cut"] = (*scenario).cut
	verbs["heal"] = func(s *scenario, _ []string) (string, error) { s.world.net.heal(); return "", nil }
}

// nodes returns a predicate of the nodes that match a pattern.
func (s *scenario) nodes(pattern string) (func(topology.Node) bool, error) {
	if pattern == "*" {
		return func(topology.Node) bool { return true }, nil
	}
	if p := s.sessions[pattern]; p != nil {
		return func(n topology.Node) bool { return n == p.sidecar }, nil
	}
	place, part, _ := strings.Cut(pattern, ".")
	part, index, given := strings.Cut(part, "/")
	index, member, _ := strings.Cut(index, ".")
	dc, err := s.dc(place)
	if err != nil {
		return nil, err
	}
	parts := map[string]topology.Part{"coordinator": topology.Coordinator, "middleman": topology.Middleman,
		"cache": topology.Cache, "": topology.PartNone}
	want, known := parts[part]
	if !known {
		return nil, fmt.Errorf("unknown part %q", part)
	}
	return func(n topology.Node) bool {
		return n.DC == dc && (want == topology.PartNone || n.Part == want) &&
			(!given || strconv.FormatUint(n.Index, 10) == index) &&
			(member == "" || strconv.Itoa(int(n.Member)) == member)
	}, nil
}

// matcher returns a predicate of messages, from the arguments KINDS FROM TO [KEY].
func (s *scenario) matcher(args []string) (func(*causal.Message) bool, error) {
	if len(args) < 3 {
		return nil, fmt.Errorf("give kinds, from and to")
	}
	from, err := s.nodes(args[1])
	if err != nil {
		return nil, err
	}
	to, err := s.nodes(args[2])
	if err != nil {
		return nil, err
	}
	kinds := map[string]bool{}
	for k := range strings.SplitSeq(args[0], ",") {
		kinds[k] = true
	}
	key := ""
	if len(args) > 3 {
		key = s.key(args[3])
	}
	return func(m *causal.Message) bool {
		return (kinds["*"] || kinds[m.Kind.String()]) && from(m.From) && to(m.To) && (key == "" || m.ConcernsKey(key))
	}, nil
}

func (s *scenario) hold(args []string, lose bool) (string, error) {
	match, err := s.matcher(args[1:])
	if err != nil {
		return "", err
	}
	h := &hold{lossy: lose, match: match}
	s.holds[args[0]] = h
	s.world.net.holds = append(s.world.net.holds, h)
	return "", nil
}

func (s *scenario) seal(args []string) (string, error) {
	h := s.holds[args[0]]
	if h == nil {
		return "", fmt.Errorf("there is no hold %q", args[0])
	}
	h.sealed = true
	return "", nil
}

// end removes a hold.
func (s *scenario) end(name string) (*hold, error) {
	h := s.holds[name]
	if h == nil {
		return nil, fmt.Errorf("there is no hold %q", name)
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
	if len(h.held) == 0 {
		return "nothing was held", nil
	}
	for i := range h.held {
		s.world.net.transmit(s.world.process(h.held[i].From), &h.held[i])
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
