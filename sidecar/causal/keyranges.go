package causal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
)

// KeyRange is the keys from From on that are below To; without To, all from From on.
type KeyRange struct {
	From, To string
}

// Visit implements Body.
func (r *KeyRange) Visit(v BodyVisitor) {
	v.Text(BodyField{Number: 1, Name: "from", rule: anything}, &r.From)
	v.Text(BodyField{Number: 2, Name: "to", rule: anything}, &r.To)
}

// KeyRanges are sorted, and do not touch each other.
type KeyRanges []KeyRange

// areSorted reports whether they are, and none is empty.
func (rs KeyRanges) areSorted() bool {
	for i, r := range rs {
		if r.isEmpty() || i > 0 && (rs[i-1].To == "" || rs[i-1].To >= r.From) {
			return false
		}
	}
	return true
}

// MaxKeyRanges bounds the ranges that a shard tells of, and MaxKeyRangesBytes their size as Encode returns them.
const MaxKeyRanges, MaxKeyRangesBytes = 256, 1 << 20

// AllKeys returns the range of all keys.
func AllKeys() KeyRanges { return KeyRanges{{}} }

// OneKey returns the range of one key.
func OneKey(key string) KeyRange { return KeyRange{key, key + "\x00"} }

// isEmpty reports whether no key is in the range.
func (r KeyRange) isEmpty() bool { return r.To != "" && r.To <= r.From }

// Has reports whether a key is in one of the ranges.
func (rs KeyRanges) Has(key string) bool {
	i, found := slices.BinarySearchFunc(rs, key, func(r KeyRange, key string) int { return cmp.Compare(r.From, key) })
	if found {
		return true
	}
	return i > 0 && (rs[i-1].To == "" || key < rs[i-1].To)
}

// With returns the ranges with another one.
func (rs KeyRanges) With(r KeyRange) KeyRanges {
	if r.isEmpty() {
		return rs
	}
	all := append(slices.Clone(rs), r)
	slices.SortFunc(all, func(a, b KeyRange) int { return cmp.Compare(a.From, b.From) })
	merged := all[:1]
	for _, r := range all[1:] {
		switch last := &merged[len(merged)-1]; {
		case last.To != "" && last.To < r.From:
			merged = append(merged, r)
		case last.To != "" && (r.To == "" || r.To > last.To):
			last.To = r.To
		}
	}
	return merged
}

// Overlap returns what is in rs and in others.
func (rs KeyRanges) Overlap(others KeyRanges) (both KeyRanges) {
	for _, a := range rs {
		for _, b := range others {
			r := KeyRange{From: max(a.From, b.From), To: a.To}
			if a.To == "" || b.To != "" && b.To < a.To {
				r.To = b.To
			}
			if !r.isEmpty() {
				both = append(both, r)
			}
		}
	}
	return both
}

// Without returns what is in rs and not in others.
func (rs KeyRanges) Without(others KeyRanges) KeyRanges {
	rest := slices.Clone(rs)
	for _, o := range others {
		var cut KeyRanges
		for _, r := range rest {
			if len((KeyRanges{r}).Overlap(KeyRanges{o})) == 0 {
				cut = append(cut, r)
				continue
			}
			if r.From < o.From {
				cut = append(cut, KeyRange{r.From, o.From})
			}
			if o.To != "" && (r.To == "" || o.To < r.To) {
				cut = append(cut, KeyRange{o.To, r.To})
			}
		}
		rest = cut
	}
	return rest
}

// Encode returns the ranges as ParseKeyRanges reads them.
func (rs KeyRanges) Encode() (b []byte) {
	for _, r := range rs {
		for _, s := range []string{r.From, r.To} {
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
	}
	return b
}

// ParseKeyRanges reads what Encode has written.
func ParseKeyRanges(b []byte) (rs KeyRanges, err error) {
	next := func() (s string) {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			err, b = errors.New("the list of key ranges is malformed"), nil
			return ""
		}
		s, b = string(b[size:size+int(n)]), b[size+int(n):]
		return s
	}
	for len(b) > 0 && err == nil {
		r := KeyRange{From: next()}
		r.To = next()
		if rs = rs.With(r); len(rs) > MaxKeyRanges {
			return nil, errors.New("the list of key ranges is too long")
		}
	}
	return rs, err
}

// record returns the ranges in the form in which messages of link protocols 1 and 2 carry them.
func (rs KeyRanges) record() Record { return Record{Value: Value{Data: rs.Encode()}} }

// rangesOf returns the ranges that such a message carries. Whatever a peer sends, they are sorted, and do not touch
// each other; what cannot be read is all keys.
func rangesOf(r Record) KeyRanges {
	rs, err := ParseKeyRanges(r.Value.Data)
	if err != nil {
		return AllKeys()
	}
	return rs
}
