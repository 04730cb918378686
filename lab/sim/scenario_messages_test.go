package sim

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Messages:
//
//	messages KINDS [FROM TO [KEY]]   shows, below each command, the messages that are delivered during it; KINDS is
//	                                 put-after,put-ack or *, which leaves out what is sent periodically
//	messages off
//
// A message is shown as `KIND FROM -> TO: FIELDS`. A write is shown as KEY=VALUE; an HLC as the newest write at or
// below it.
func init() {
	verbs["messages"] = (*scenario).showMessages
}

func (s *scenario) showMessages(args []string) (string, error) {
	if err := s.start(); err != nil {
		return "", err
	}
	if len(args) == 1 && args[0] == "off" {
		s.trace.shown = nil
		return "", nil
	}
	if len(args) == 1 {
		args = append(args, "*", "*")
	}
	match, err := s.matcher(args)
	if err != nil {
		return "", err
	}
	all := args[0] == "*"
	s.trace.shown = func(m *causal.Message) bool { return match(m) && !(all && periodic[m.Kind]) }
	return "", nil
}

// newScenarioTrace returns a trace that names keys and nodes as the commands of a script do.
func newScenarioTrace(s *scenario) *trace {
	t := newTrace(func(line string) { s.below = append(s.below, line) })
	t.keyName = func(key string) string {
		if name, ok := s.keyNames[key]; ok {
			return name
		}
		return key
	}
	t.sidecarName = func(n topology.Node) string {
		for _, name := range sortedKeys(s.sessions) {
			if s.sessions[name].sidecar == n {
				return s.sessions[name].session
			}
		}
		return ""
	}
	return t
}

func sortedKeys(sessions map[string]*client) []string {
	var names []string
	for name := range sessions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
