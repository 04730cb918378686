package session

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Waits of clients until there is something in one of some keys (PROTOCOL HOW). The homes of the keys are told, and say
// when it is the client's turn. The client then looks, with an ordinary command, and says what it has found. What no
// home tells, it finds out by looking again and again: what other data centers write, and all of a home that does not
// answer, or of sessions that do not ask homes.

const (
	// lookInterval is how often a client looks that nobody tells.
	lookInterval = 250 * time.Millisecond
	// awaitRetry is how long after a wait was told to a home that has not answered it is told again.
	awaitRetry = 500 * time.Millisecond
)

// Turn says that a client that waits is to look at its keys.
type Turn struct {
	ID uint64 // of Await
	// Told says that a home has told that something was published.
	Told bool
	// Err is why the client cannot wait, if it is not causal.OK: the home has no room for it, or a key is too long.
	Err causal.ErrCode
}

// awaits are the waits of all clients.
type awaits struct {
	byID   map[uint64]*await
	list   []*await // in the order in which they began
	turns  []Turn
	nextAt int64 // monotonic: when one is due
}

// await is the wait of a client.
type await struct {
	id       uint64
	since    int64 // monotonic
	keys     []awaitedKey
	isAtHome bool
	looking  bool  // the client has its turn, and has not said yet what it has found
	lookedAt int64 // monotonic
}

type awaitedKey struct {
	key  string
	slot topology.Slot
	// news is the newest that the home has told, looking what it had told when the client began to look, and looked
	// after what it has found nothing.
	news, looking, looked causal.HLC
	isFirst               bool  // the home has told that it is the client's turn
	sendAt                int64 // monotonic: when the home is told again
	heardAt               int64 // monotonic: when the home has last answered; 0: not yet
}

func newAwaits() awaits { return awaits{byID: map[uint64]*await{}, nextAt: causal.Never} }

// Await makes a client wait until there may be something in one of some keys. Its turns come from TakeTurns, each to be
// answered with Looked, until EndAwait. The id is chosen by the caller, unique for this sidecar. A session that does
// not ask homes is told nothing, and looks from time to time.
func (s *Sidecar) Await(now causal.Now, id uint64, keys []string, isAtHome bool) {
	w := &await{id: id, since: now.Mono, isAtHome: isAtHome, lookedAt: now.Mono}
	for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		k := awaitedKey{key: key, slot: topology.SlotOf(key), sendAt: causal.Never}
		if isAtHome {
			k.sendAt = now.Mono
		}
		w.keys = append(w.keys, k)
	}
	s.awaits.byID[id] = w
	s.awaits.list = append(s.awaits.list, w)
	s.awaits.nextAt = now.Mono
	s.tickAwaits(now)
}

// Looked says that a client has looked. If that has failed, it looks again after a while.
func (s *Sidecar) Looked(now causal.Now, id uint64, failed bool) {
	w := s.awaits.byID[id]
	if w == nil {
		return
	}
	w.looking, w.lookedAt = false, now.Mono
	if !failed {
		for i := range w.keys {
			s.noteLooked(now, w, &w.keys[i])
		}
		if w.hasNews() {
			s.giveTurn(w, true)
		}
	}
	s.awaits.nextAt = now.Mono
}

// noteLooked tells the home of a key what a client has found nothing after: what was told meanwhile may be new.
func (s *Sidecar) noteLooked(now causal.Now, w *await, k *awaitedKey) {
	if k.looking > k.looked {
		k.looked = k.looking
		s.tellAwait(now, w, k)
	}
}

// hasNews reports whether a client has not looked since a home has told something.
func (w *await) hasNews() bool {
	return slices.ContainsFunc(w.keys, func(k awaitedKey) bool { return k.news > k.looked })
}

// EndAwait ends a wait.
func (s *Sidecar) EndAwait(_ causal.Now, id uint64) {
	w := s.awaits.byID[id]
	if w == nil {
		return
	}
	delete(s.awaits.byID, id)
	s.awaits.list = slices.DeleteFunc(s.awaits.list, func(other *await) bool { return other == w })
	if !w.isAtHome {
		return
	}
	for i := range w.keys {
		s.withdraw(s.homeOf(w.keys[i].slot), id, w.keys[i].key)
	}
}

// withdraw tells a home that a client waits no more.
func (s *Sidecar) withdraw(home topology.Node, id uint64, key string) {
	s.Send(causal.HomeWait{ID: id, Key: key, Ended: true}.Message(s.cfg.Self, home))
}

// TakeTurns appends the turns of clients to dst and forgets them.
func (s *Sidecar) TakeTurns(dst []Turn) []Turn {
	dst = append(dst, s.awaits.turns...)
	s.awaits.turns = s.awaits.turns[:0]
	return dst
}

// Awaiting returns how many clients wait.
func (s *Sidecar) Awaiting() int { return len(s.awaits.list) }

// tellAwait tells the home of a key that a client waits for it.
func (s *Sidecar) tellAwait(now causal.Now, w *await, k *awaitedKey) {
	k.sendAt = now.Mono + int64(awaitRetry)
	s.Send(causal.HomeWait{ID: w.id, Key: k.key, AgeMs: uint64((now.Mono - w.since) / int64(time.Millisecond)),
		Looked: k.looked}.Message(s.cfg.Self, s.homeOf(k.slot)))
}

// handleWake takes an answer of a home, or that it is a client's turn.
func (s *Sidecar) handleWake(now causal.Now, from topology.Node, m causal.HomeWake) {
	w := s.awaits.byID[m.ID]
	if w == nil {
		if m.News != 0 { // what it was told before has not arrived
			s.withdraw(from, m.ID, m.Key)
		}
		return
	}
	i := slices.IndexFunc(w.keys, func(k awaitedKey) bool { return k.key == m.Key })
	if i < 0 || from != s.homeOf(w.keys[i].slot) || m.News > s.timeLimit(now) {
		return
	}
	k := &w.keys[i]
	switch m.Err {
	case causal.OK:
	case causal.ErrBusy, causal.ErrTooLarge:
		s.awaits.turns = append(s.awaits.turns, Turn{ID: w.id, Err: m.Err})
		return
	default:
		k.heardAt = 0 // it is told again after a while; how many homes there are may come with the answer
		return
	}
	k.heardAt, k.sendAt = now.Mono, now.Mono+int64(causal.WaitRenewal)
	if m.News == 0 {
		return
	}
	k.isFirst, k.news = true, max(k.news, m.News)
	if !w.looking {
		s.giveTurn(w, true)
	}
}

// giveTurn makes a client look.
func (s *Sidecar) giveTurn(w *await, told bool) {
	w.looking = true
	for i := range w.keys {
		w.keys[i].looking = w.keys[i].news
	}
	if told {
		s.stats.Told++
	} else {
		s.stats.Looked++
	}
	s.awaits.turns = append(s.awaits.turns, Turn{ID: w.id, Told: told})
}

// awaitAgain tells homes, which have started again or are others, of all that clients wait for there.
func (s *Sidecar) awaitAgain(now causal.Now, isAgain func(topology.Node) bool) {
	if s.cfg.Broken.Has(causal.WaitNotRenewed) {
		return
	}
	for _, w := range s.awaits.list {
		for i := range w.keys {
			if k := &w.keys[i]; w.isAtHome && isAgain(s.homeOf(k.slot)) {
				k.heardAt, k.isFirst, k.sendAt = 0, false, now.Mono
			}
		}
	}
	s.awaits.nextAt = now.Mono
}

// tickAwaits tells homes that clients still wait, and makes those look that nobody tells.
func (s *Sidecar) tickAwaits(now causal.Now) {
	if now.Mono < s.awaits.nextAt {
		return
	}
	s.awaits.nextAt = causal.Never
	for _, w := range s.awaits.list {
		next := causal.Never
		for i := range w.keys {
			k := &w.keys[i]
			if now.Mono >= k.sendAt && !(s.cfg.Broken.Has(causal.WaitNotRenewed) && k.heardAt > 0) {
				s.tellAwait(now, w, k)
			}
			next = min(next, k.sendAt)
		}
		if !w.looking && (w.hasNews() || s.looksItself(now, w)) {
			if now.Mono-w.lookedAt >= int64(lookInterval) {
				s.giveTurn(w, w.hasNews())
			}
			next = min(next, w.lookedAt+int64(lookInterval))
		}
		s.awaits.nextAt = min(s.awaits.nextAt, max(next, now.Mono+1))
	}
}

// looksItself reports whether there may be something that a client is not told of: its home has not answered for long,
// or it is the first of those that wait for what other data centers write.
func (s *Sidecar) looksItself(now causal.Now, w *await) bool {
	return !w.isAtHome || slices.ContainsFunc(w.keys, func(k awaitedKey) bool {
		isKept := k.heardAt > 0 && now.Mono-k.heardAt < int64(causal.WaitRenewal+time.Second)
		return !isKept || k.isFirst && len(s.cfg.Topology.DCs) > 1
	})
}
