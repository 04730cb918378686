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

// maxKeyTraceLines bounds a KeyTrace. What is left out is in the middle.
const maxKeyTraceLines = 2000

// KeyTrace is what a seed does to one key: the messages that concern it, and below each what has changed since in the
// state that parts have of it.
type KeyTrace struct {
	Lines   []string
	LeftOut int // lines behind the first half of Lines
	Outcome Outcome
}

// TraceKey runs a seed and traces a key. It fails if nothing concerns the key.
func TraceKey(p Profile, seed uint64, broken causal.Mutations, key string) (*KeyTrace, error) {
	if p.run != nil {
		return nil, fmt.Errorf("profile %s simulates groups alone, without keys; give another one", p.Name)
	}
	k := &keyTracer{key: key, states: map[*node]string{}, asked: map[putID]bool{}, result: &KeyTrace{}}
	k.trace = newTrace(k.add)
	k.trace.unnamed = unnamed
	var checker history.Checker
	k.result.Outcome = runWith(p, seed, broken, &checker, func(w *World) {
		k.trace.follow(w)
		w.delivered = k.delivered
	})
	if len(k.result.Lines) == 0 {
		return nil, fmt.Errorf("nothing concerns the key %q in seed %d of profile %s; its keys are: %s", key, seed,
			p.Name, keysOf(k.result.Outcome.History))
	}
	k.showChanges()
	return k.result, nil
}

// maxKeysListed bounds the keys that an error lists.
const maxKeysListed = 20

// keysOf lists the keys of a history, the shortest ones first.
func keysOf(h history.History) string {
	keys := map[string]bool{}
	for i := range h {
		if h[i].Key != "" {
			keys[h[i].Key] = true
		}
		for _, r := range h[i].Reads {
			keys[r.Key] = true
		}
	}
	var all []string
	for key := range keys {
		all = append(all, key)
	}
	slices.SortFunc(all, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	if len(all) > maxKeysListed {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxKeysListed], " "), len(all)-maxKeysListed)
	}
	return strings.Join(all, " ")
}

// keyTracer traces one key while a world runs.
type keyTracer struct {
	trace  *trace
	key    string
	states map[*node]string // of those that have something of the key, as shown last, with versions for names
	asked  map[putID]bool   // gets and puts of the key: replies name the request only
	result *KeyTrace
}

func (k *keyTracer) delivered(m *causal.Message) {
	k.showChanges() // of what has happened since the last message
	k.trace.learn(m)
	if k.concerns(m) {
		k.add(k.trace.line(m))
	}
}

// concerns reports whether a message names the key, a request for it, or a write of it.
func (k *keyTracer) concerns(m *causal.Message) bool {
	switch m.Kind {
	case causal.KindGet, causal.KindPut:
		if !m.ConcernsKey(k.key) {
			return false
		}
		id := m.Put().ID
		if m.Kind == causal.KindGet {
			id = m.Get().ID
		}
		k.asked[putID{m.From, id}] = true
		return true
	case causal.KindGetReply:
		return k.asked[putID{m.To, m.GetReply().ID}]
	case causal.KindPutReply:
		return k.asked[putID{m.To, m.PutReply().ID}]
	case causal.KindPutAck:
		return k.wrote(m.PutAck().Versions)
	case causal.KindComplete:
		return k.wrote(m.Complete().Versions)
	case causal.KindStable:
		return k.wrote(m.StableMarks().Versions)
	}
	return m.ConcernsKey(k.key)
}

// wrote reports whether one of some writes is of the key.
func (k *keyTracer) wrote(versions []causal.Version) bool {
	return slices.ContainsFunc(versions, func(v causal.Version) bool {
		return strings.HasPrefix(k.trace.names[v], k.key+"=")
	})
}

// showChanges shows the state of each part where it has changed.
func (k *keyTracer) showChanges() {
	for _, n := range k.trace.world.order {
		is := k.trace.state(n, k.key, versionTexts)
		if is == k.states[n] {
			continue
		}
		k.states[n] = is
		k.add(fmt.Sprintf("      %s: %s", k.trace.node(n.id), orNothing(k.trace.state(n, k.key, k.trace.versions))))
	}
}

// add adds a line with its time. Beyond the bound it drops the oldest line of the second half.
func (k *keyTracer) add(line string) {
	r := k.result
	r.Lines = append(r.Lines, fmt.Sprintf("%10.3f ms %s", float64(k.trace.world.now)/float64(time.Millisecond), line))
	if len(r.Lines) > maxKeyTraceLines {
		r.Lines = slices.Delete(r.Lines, maxKeyTraceLines/2, maxKeyTraceLines/2+1)
		r.LeftOut++
	}
}

// versionTexts names versions by themselves.
func versionTexts(versions ...causal.Version) string {
	var all []string
	for _, v := range versions {
		all = append(all, unnamed(v))
	}
	return strings.Join(all, " ")
}

// unnamed names a version that no message has named.
func unnamed(v causal.Version) string {
	if !v.Written() {
		return "missing"
	}
	return fmt.Sprintf("%d@%d", uint64(v.HLC), v.Origin)
}

// state shows what a part has of a key, with names for versions; "" for nothing.
func (t *trace) state(n *node, key string, name func(...causal.Version) string) string {
	if !n.isUp() {
		return ""
	}
	var parts fieldList
	list := func(what string, versions []causal.Version) {
		if len(versions) > 0 {
			parts.add("%s %s", what, name(versions...))
		}
	}
	if n.id.Part == topology.Middleman && n.disk != nil {
		if rec, found := n.disk.records[key]; found {
			list("stored", []causal.Version{rec.Version})
		}
	}
	if s := n.shard(); s != nil && s.Serving() != nil {
		list("staged", s.Serving().Staged(key))
	}
	if c := n.coordinator(); c != nil {
		list("incomplete", c.IncompleteWrites(key))
	}
	switch m := n.m.(type) {
	case *cache.Cache:
		list("copies", m.Copies(t.world.clock(n), key))
	case *session.Sidecar:
		var ids []uint64
		m.EachSession(func(id uint64, _ session.Status) { ids = append(ids, id) })
		slices.Sort(ids)
		for _, id := range ids {
			if v, ok := m.OwnWrite(id, key); ok {
				list(fmt.Sprintf("own write of s%d", id), []causal.Version{v})
			}
		}
	}
	return strings.Join(parts, ", ")
}
