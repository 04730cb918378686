package value

// How many entries were before one, and how many are left for a group, is known as far as Redis knows it: not if
// entries in between were removed.

// HasRemovedSince reports whether an entry at or above an id may have been removed by itself.
func (s *StreamLog) HasRemovedSince(id StreamID) bool {
	return len(s.Entries) > 0 && s.MaxDeleted != (StreamID{}) && !s.MaxDeleted.Less(id) &&
		!s.MaxDeleted.Less(s.Entries[0].ID)
}

// Position returns how many entries the stream has had up to an id, or UnknownRead.
func (s *StreamLog) Position(id StreamID) int64 {
	n := int64(len(s.Entries))
	switch c := id.Compare(s.Last); {
	case s.Added == 0:
		return 0
	case n == 0 && c <= 0, c == 0:
		return s.Added
	case c > 0:
		return UnknownRead
	}
	first := s.Entries[0].ID
	if s.MaxDeleted == (StreamID{}) || s.MaxDeleted.Less(first) {
		switch id.Compare(first) {
		case -1:
			return s.Added - n
		case 0:
			return s.Added - n + 1
		}
	}
	return UnknownRead
}

// Lag returns how many entries are left for the group. ok is false if that is not known.
func (g *StreamGroup) Lag() (lag int64, ok bool) {
	s := g.stream
	if s.Added == 0 {
		return 0, true
	}
	read := g.Read
	if read == UnknownRead || s.HasRemovedSince(g.Last()) {
		read = s.Position(g.Last())
	}
	return s.Added - read, read != UnknownRead
}
