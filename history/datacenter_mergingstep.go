package history

import "github.com/causalstore/causalstore/sidecar/causal"

// addMergingKey adds what was done to a key of which the values merge: a read comes behind the adds that it has, and
// before those that it lacks. A key that was overwritten is left out: an add that a read lacks may be gone.
func (s *oneStep) addMergingKey(h History, k *keyAccesses, dc string, at map[int]int, p *PromiseReport) {
	m := newMergingKey(h, k, dc)
	if m.isReplaced || len(m.replacing) > 0 {
		p.NotJudged += len(m.reads)
		return
	}
	var adds []stepWrite
	for i := range k.accesses {
		if a := &k.accesses[i]; h[a.op].adds(a) && !a.version.IsZero() && (a.dc == dc || m.isShown(a.version)) {
			adds = append(adds, stepWrite{a.version, s.nodeOf(a, dc, at)})
		}
	}
	for i := range m.reads {
		read := &m.reads[i]
		p.Judged++
		n := s.nodeOf(read.access, dc, at)
		for _, w := range adds {
			switch {
			case w.node == n:
			case !read.parts[w.version]:
				s.connect(n, w.node, readBefore, k.name)
			case m.own[w.version] || read.certain:
				s.connect(w.node, n, wasRead, k.name)
			}
		}
	}
}

// isShown reports whether a read tells that a write of another data center has taken effect.
func (m *mergingKey) isShown(v causal.Version) bool {
	for i := range m.reads {
		if m.reads[i].certain && m.reads[i].parts[v] {
			return true
		}
	}
	return false
}
