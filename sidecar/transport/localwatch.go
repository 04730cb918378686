package transport

import (
	"slices"
	"sync"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Watcher is told which nodes can be reached, as Config.Up and Config.Down are, and which puts of Node were not sent,
// as Config.Unsent is. Its fields may be zero.
type Watcher struct {
	Up   func(topology.Node, causal.Leadership)
	Down func(topology.Node)

	Node   topology.Node
	Unsent func(put causal.Message)
}

// watchers are told of changes one after the other, in the order in which they happen. Local.mu guards the fields.
type watchers struct {
	all     []*Watcher
	changes []reachability // of which the watchers have not been told
	telling bool
}

// reachability says that a node can be reached, or cannot be any more.
type reachability struct {
	node       topology.Node
	up         bool
	leadership causal.Leadership
	only       *Watcher // who is told; nil: all
}

// Watch makes w hear of the nodes that can be reached, and of changes, until the returned function is called. The
// goroutine that makes a change tells all watchers before its call returns, unless another one is telling them: that
// one does so then. So w may send messages, and set leaderships.
func (l *Local) Watch(w Watcher) (unwatch func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(slices.Clip(l.all), &w)
	for n, ep := range *l.endpoints.Load() {
		if n.Member == 0 {
			l.changes = append(l.changes, reachability{node: n, up: true, leadership: ep.leadership, only: &w})
		}
	}
	l.tell(&l.mu)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = slices.DeleteFunc(slices.Clone(l.all), func(o *Watcher) bool { return o == &w })
	}
}

// reportUnsent tells the sender of a put that it was not sent.
func (l *Local) reportUnsent(m *causal.Message) {
	if !m.Kind.IsPut() {
		return
	}
	l.mu.Lock()
	all := l.all // Watch replaces it, and changes none
	l.mu.Unlock()
	for _, w := range all {
		if w.Unsent != nil && w.Node == m.From {
			w.Unsent(*m)
		}
	}
}

func (s *watchers) noteUp(n topology.Node, l causal.Leadership) {
	s.changes = append(s.changes, reachability{node: n, up: true, leadership: l})
}

func (s *watchers) noteDown(n topology.Node) {
	s.changes = append(s.changes, reachability{node: n})
}

// tell tells the watchers. The caller holds mu, which tell releases meanwhile.
func (s *watchers) tell(mu *sync.Mutex) {
	if s.telling {
		return
	}
	s.telling = true
	for len(s.changes) > 0 {
		changes, all := s.changes, s.all
		s.changes = nil
		mu.Unlock()
		for _, c := range changes {
			for _, w := range all {
				if c.only == nil || c.only == w {
					w.tell(c)
				}
			}
		}
		mu.Lock()
	}
	s.telling = false
}

func (w *Watcher) tell(c reachability) {
	switch {
	case c.up && w.Up != nil:
		w.Up(c.node, c.leadership)
	case !c.up && w.Down != nil:
		w.Down(c.node)
	}
}
