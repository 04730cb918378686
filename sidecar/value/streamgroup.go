package value

import (
	"encoding/binary"
	"maps"
	"slices"
)

// StreamGroup is a consumer group of a stream, which all data centers share.
//
// What was delivered is known line by line: of the entries that one line has added, all up to an id. Whoever sees an
// entry of a line sees those before it too, so none of them can arrive late. An id for all entries would not do: an
// entry of another data center may arrive after one with a greater id was delivered.
type StreamGroup struct {
	Name string
	Read int64 // how many entries were delivered; UnknownRead: it is not known

	stream    *StreamLog
	lines     map[Line]groupCut
	cut       map[Line]StreamID // the greatest of all lines
	consumers map[string]int64
	pending   []Pending // in the order of their ids
}

// groupCut is what a line knows that a group has delivered.
type groupCut struct {
	cut  map[Line]StreamID
	read int64
}

// Pending is an entry that was delivered, and not acknowledged.
type Pending struct {
	ID       StreamID
	AtMs     int64 // when it was delivered last
	Count    int64 // how often
	Consumer string
}

// UnknownRead is the number of entries that a group has read, if nobody knows.
const UnknownRead = -1

// group returns a group, which may be new.
func (s *StreamLog) group(name string) *StreamGroup {
	if s.groups == nil {
		s.groups = map[string]*StreamGroup{}
	}
	g := s.groups[name]
	if g == nil {
		g = &StreamGroup{Name: name, stream: s, lines: map[Line]groupCut{}, consumers: map[string]int64{}}
		s.groups[name] = g
	}
	return g
}

// Group returns a group, or nil.
func (s *StreamLog) Group(name string) *StreamGroup { return s.groups[name] }

// Groups returns the groups in the order of their names.
func (s *StreamLog) Groups() (groups []*StreamGroup) {
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		groups = append(groups, s.groups[name])
	}
	return groups
}

func (g *StreamGroup) addCut(line Line, p *streamReader) {
	c := groupCut{map[Line]StreamID{}, p.Varint()}
	for p.Left() > 0 && !p.Failed() {
		c.cut[Line(p.Uvarint())] = p.id()
	}
	g.lines[line] = c
	g.sumUp()
}

func (c *groupCut) payload() string {
	b := binary.AppendVarint(nil, c.read)
	for _, line := range slices.Sorted(maps.Keys(c.cut)) {
		b = appendID(binary.AppendUvarint(b, uint64(line)), c.cut[line])
	}
	return string(b)
}

func lastOf(cut map[Line]StreamID) (last StreamID) {
	for _, id := range cut {
		last = maxStreamID(last, id)
	}
	return last
}

// sumUp takes the greatest of what lines know.
func (g *StreamGroup) sumUp() {
	g.cut, g.Read = map[Line]StreamID{}, UnknownRead
	for _, c := range g.lines {
		for line, id := range c.cut {
			g.cut[line] = maxStreamID(g.cut[line], id)
		}
	}
	last := lastOf(g.cut)
	for _, c := range g.lines {
		if lastOf(c.cut) == last {
			g.Read = max(g.Read, c.read)
		}
	}
}

// Last returns the greatest id that was delivered.
func (g *StreamGroup) Last() StreamID { return lastOf(g.cut) }

// Start makes entries up to an id delivered, and those above it not. An entry that others have added and that is not
// here yet will be delivered, whatever its id is.
func (s *StreamLog) Start(name string, line Line, id StreamID, read int64) {
	g := s.group(name)
	cut := map[Line]StreamID{line: id}
	for i := range s.Entries {
		if e := &s.Entries[i]; e.line != line && !id.Less(e.ID) {
			cut[e.line] = e.ID
		}
	}
	for other := range g.lines {
		if other != line {
			s.drop(groupName(name, other))
			delete(g.lines, other)
		}
	}
	g.setCut(line, groupCut{cut, read})
}

func (g *StreamGroup) setCut(line Line, c groupCut) {
	g.lines[line] = c
	g.stream.put(groupName(g.Name, line), c.payload())
	g.sumUp()
}

// Undelivered returns up to limit entries that were not delivered; 0: all.
func (g *StreamGroup) Undelivered(limit int) (entries []StreamEntry) {
	for i := range g.stream.Entries {
		if e := &g.stream.Entries[i]; g.cut[e.line].Less(e.ID) {
			if entries = append(entries, *e); len(entries) == limit {
				break
			}
		}
	}
	return entries
}

// Deliver notes that entries, of which each is the next one of its line, were delivered.
func (g *StreamGroup) Deliver(entries []StreamEntry, line Line) {
	if len(entries) == 0 {
		return
	}
	c := groupCut{maps.Clone(g.cut), g.Read}
	for i := range entries {
		c.read = g.readWith(&entries[i], c.read)
		c.cut[entries[i].line] = entries[i].ID
	}
	g.setCut(line, c)
}

// readWith returns how many entries were read when another one is.
func (g *StreamGroup) readWith(e *StreamEntry, read int64) int64 {
	s := g.stream
	if read != UnknownRead && !s.HasRemovedSince(e.ID) {
		return read + 1
	}
	return s.Position(e.ID)
}

// Drop removes the group.
func (g *StreamGroup) Drop() {
	for line := range g.lines {
		g.stream.drop(groupName(g.Name, line))
	}
	for consumer := range g.consumers {
		g.stream.drop(consumerName(g.Name, consumer))
	}
	for _, p := range g.pending {
		g.stream.drop(pendingName(g.Name, p.ID))
	}
	delete(g.stream.groups, g.Name)
}

// Consumers returns the names of the consumers in their order.
func (g *StreamGroup) Consumers() []string { return slices.Sorted(maps.Keys(g.consumers)) }

// HasConsumer reports whether there is a consumer.
func (g *StreamGroup) HasConsumer(name string) bool {
	_, has := g.consumers[name]
	return has
}

// SeenMs returns when a consumer was last seen.
func (g *StreamGroup) SeenMs(consumer string) int64 { return g.consumers[consumer] }

// See notes that a consumer was seen, which may be new.
func (g *StreamGroup) See(consumer string, nowMs int64) {
	g.consumers[consumer] = nowMs
	g.stream.put(consumerName(g.Name, consumer), string(binary.AppendVarint(nil, nowMs)))
}

// RemoveConsumer removes a consumer, with what is pending for it. It returns how many entries that was.
func (g *StreamGroup) RemoveConsumer(name string) (removed int) {
	if !g.HasConsumer(name) {
		return 0
	}
	for _, p := range g.PendingOf(name) {
		g.Acknowledge(p.ID)
		removed++
	}
	delete(g.consumers, name)
	g.stream.drop(consumerName(g.Name, name))
	return removed
}

// Pending returns the entries that were delivered, and not acknowledged, in their order. It is for reading.
func (g *StreamGroup) Pending() []Pending { return g.pending }

// PendingOf returns those of a consumer.
func (g *StreamGroup) PendingOf(consumer string) (of []Pending) {
	for _, p := range g.pending {
		if p.Consumer == consumer {
			of = append(of, p)
		}
	}
	return of
}

func (g *StreamGroup) find(id StreamID) (i int, ok bool) {
	return slices.BinarySearchFunc(g.pending, id, func(p Pending, id StreamID) int { return p.ID.Compare(id) })
}

// PendingAt returns the one with an id.
func (g *StreamGroup) PendingAt(id StreamID) (p Pending, ok bool) {
	i, ok := g.find(id)
	if ok {
		p = g.pending[i]
	}
	return p, ok
}

// Await notes that an entry is pending.
func (g *StreamGroup) Await(p Pending) {
	i, has := g.find(p.ID)
	if has {
		g.pending[i] = p
	} else {
		g.pending = slices.Insert(g.pending, i, p)
	}
	b := binary.AppendVarint(binary.AppendVarint(nil, p.AtMs), p.Count)
	g.stream.put(pendingName(g.Name, p.ID), string(append(b, p.Consumer...)))
}

// Acknowledge notes that an entry is not pending any more. It reports whether it was.
func (g *StreamGroup) Acknowledge(id StreamID) bool {
	i, has := g.find(id)
	if !has {
		return false
	}
	g.pending = slices.Delete(g.pending, i, i+1)
	g.stream.drop(pendingName(g.Name, id))
	return true
}
