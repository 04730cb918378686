package value

import (
	"iter"
	"maps"
	"slices"
)

// StreamLog is a stream, as it is read; or in a Change, where what is changed of it is put.
type StreamLog struct {
	Last, MaxDeleted StreamID // the greatest id that it has had, and the greatest that was removed by itself
	Added            int64    // how many entries it has had
	Entries          []StreamEntry

	states map[Line]streamState
	groups map[string]*StreamGroup
	change *Change
}

// StreamEntry is an entry of a stream.
type StreamEntry struct {
	ID     StreamID
	line   Line // which has added it
	fields string
}

// Fields returns the fields of the entry, each with its value after it.
func (e *StreamEntry) Fields() (fields []string) {
	for d := newStreamReader(e.fields); d.Left() > 0 && !d.Failed(); {
		fields = append(fields, d.string())
	}
	return fields
}

// StreamOf returns the stream that a collection is.
func StreamOf(h *Collection) *StreamLog { return streamOf(h.All()) }

// Stream returns the stream, to read and to change it. A collection that is empty becomes one when something is added.
func (c *Change) Stream() *StreamLog {
	if c.stream == nil {
		c.stream = streamOf(c.All())
		c.stream.change = c
	}
	return c.stream
}

func streamOf(rows iter.Seq2[string, string]) *StreamLog {
	s, ok := &StreamLog{}, false
	for name, payload := range rows {
		s.read(name, payload, &ok)
	}
	s.sumUp()
	maps.DeleteFunc(s.groups, func(_ string, g *StreamGroup) bool { return len(g.lines) == 0 })
	for _, g := range s.groups {
		for _, p := range g.pending {
			if _, has := g.consumers[p.Consumer]; !has {
				g.consumers[p.Consumer] = p.AtMs
			}
		}
	}
	return s
}

func (s *StreamLog) addState(line Line, state streamState) {
	if s.states == nil {
		s.states = map[Line]streamState{}
	}
	s.states[line] = state
	s.sumUp()
}

// sumUp takes the greatest of what lines know, and the sum of what they have added.
func (s *StreamLog) sumUp() {
	s.Last, s.MaxDeleted, s.Added = StreamID{}, StreamID{}, 0
	for _, state := range s.states {
		s.Last = maxStreamID(s.Last, state.last)
		s.MaxDeleted = maxStreamID(s.MaxDeleted, state.maxDeleted)
		s.Added += state.added
	}
	if n := len(s.Entries); n > 0 { // a state may be set back while an entry is added elsewhere
		s.Last, s.Added = maxStreamID(s.Last, s.Entries[n-1].ID), max(s.Added, int64(n))
	}
}

// put adds a row, or replaces it.
func (s *StreamLog) put(name, payload string) {
	s.change.Add(Stream, name, payload)
	s.change.stream = s
}

// drop removes a row.
func (s *StreamLog) drop(name string) {
	s.change.Remove(name)
	s.change.stream = s
}

func (s *StreamLog) setState(line Line, state streamState) {
	s.put(stateName(line), state.payload())
	s.addState(line, state)
}

// Make makes an empty collection a stream without entries.
func (s *StreamLog) Make(line Line) { s.setState(line, s.states[line]) }

// Append adds an entry with an id above Last.
func (s *StreamLog) Append(id StreamID, line Line, fields []string) {
	payload := entryPayload(line, fields)
	s.put(entryName(id), payload)
	p := newStreamReader(payload)
	p.Uvarint()
	s.Entries = append(s.Entries, StreamEntry{id, line, p.rest()})
	state := s.states[line]
	state.last = id
	state.added = s.Added + 1 - s.addedByOthers(line)
	s.setState(line, state)
}

func (s *StreamLog) addedByOthers(line Line) (n int64) {
	for other, state := range s.states {
		if other != line {
			n += state.added
		}
	}
	return n
}

// Find returns where the first entry is that is at or above an id, and whether it has that id.
func (s *StreamLog) Find(id StreamID) (i int, isThere bool) {
	return slices.BinarySearchFunc(s.Entries, id, func(e StreamEntry, id StreamID) int { return e.ID.Compare(id) })
}

// Entry returns an entry, or nil.
func (s *StreamLog) Entry(id StreamID) *StreamEntry {
	if i, ok := s.Find(id); ok {
		return &s.Entries[i]
	}
	return nil
}

// RemoveFirst removes the first n entries.
func (s *StreamLog) RemoveFirst(n int) {
	for i := range s.Entries[:n] {
		s.drop(entryName(s.Entries[i].ID))
	}
	s.Entries = s.Entries[n:]
}

// Delete removes an entry. It reports whether there was one.
func (s *StreamLog) Delete(id StreamID, line Line) bool {
	i, ok := s.Find(id)
	if !ok {
		return false
	}
	s.drop(entryName(id))
	s.Entries = slices.Delete(s.Entries, i, i+1)
	if s.MaxDeleted.Less(id) {
		state := s.states[line]
		state.maxDeleted, state.last = id, s.Last
		s.setState(line, state)
	}
	return true
}

// SetLast sets what is known besides the entries: Last, with hasAdded how many entries there were, and MaxDeleted, if
// that is not 0.
func (s *StreamLog) SetLast(line Line, last StreamID, added int64, hasAdded bool, maxDeleted StreamID) {
	for other, state := range s.states {
		old := state
		if last.Less(state.last) {
			state.last = last
		}
		if maxDeleted != (StreamID{}) && maxDeleted.Less(state.maxDeleted) {
			state.maxDeleted = maxDeleted
		}
		if state != old && other != line {
			s.setState(other, state)
		}
	}
	state := s.states[line]
	state.last = last
	if hasAdded {
		state.added = added - s.addedByOthers(line)
	}
	if maxDeleted != (StreamID{}) {
		state.maxDeleted = maxDeleted
	}
	s.setState(line, state)
}

// Bytes is about how many bytes the first n entries take.
func (s *StreamLog) Bytes(n int) (bytes int) {
	for i := range s.Entries[:n] {
		bytes += len(s.Entries[i].fields)
	}
	return bytes
}
