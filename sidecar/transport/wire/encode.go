package wire

import (
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Append appends the encoding of m to dst and returns the extended buffer.
func Append(dst []byte, m *causal.Message) []byte {
	return appendMessage(dst, m, topology.Node{}, topology.Node{})
}

// Batch builds a frame one message at a time, in Buf. The zero Batch is empty.
type Batch struct {
	Buf []byte
	// Protocol is the link protocol of the reader; 0: the newest one.
	Protocol uint32
	// from and to are those of the last message. Most frames are between two nodes and encode them once.
	from, to topology.Node
}

// Add appends m to the frame.
func (b *Batch) Add(m *causal.Message) {
	size := EstimateSize(m)
	dst := slices.Grow(b.Buf, size+16)
	dst = protowire.AppendTag(dst, fFrameMessages, protowire.BytesType)
	dst, start := openBytes(dst, size)
	if b.Protocol != 0 && m.Body() != nil && causal.BodySince(m.Kind) > b.Protocol {
		dst = appendWithoutBody(dst, m, b.from, b.to)
	} else {
		dst = appendMessage(dst, m, b.from, b.to)
	}
	b.Buf = closeBytes(dst, start, size)
	b.from, b.to = m.From, m.To
}

// openBytes reserves space for the length prefix of about guess bytes, and closeBytes fills it in. If the prefix has
// another size, closeBytes moves the bytes, which is cheaper than computing every length beforehand.
func openBytes(dst []byte, guess int) (_ []byte, start int) {
	for range protowire.SizeVarint(uint64(guess)) {
		dst = append(dst, 0)
	}
	return dst, len(dst)
}

func closeBytes(dst []byte, start, guess int) []byte {
	length := len(dst) - start
	had, want := protowire.SizeVarint(uint64(guess)), protowire.SizeVarint(uint64(length))
	if had != want {
		dst = slices.Grow(dst, max(0, want-had))[:len(dst)+want-had]
		copy(dst[start+want-had:], dst[start:start+length])
	}
	protowire.AppendVarint(dst[:start-had], uint64(length))
	return dst
}

func appendMessage(dst []byte, m *causal.Message, from, to topology.Node) []byte {
	dst = appendFields(appendHead(dst, m, from, to), m.Fields())
	dst = appendExclusions(dst, m.Fields().Exclusions)
	if b := m.Body(); b != nil {
		dst = appendBody(dst, m.Kind, b)
	}
	return dst
}

// appendWithoutBody appends a message for a reader that does not know that its kind has a body.
func appendWithoutBody(dst []byte, m *causal.Message, from, to topology.Node) []byte {
	s := m.Shared()
	dst = appendFormer(appendFields(appendHead(dst, m, from, to), &s.Fields), &s.Former)
	return appendExclusions(dst, s.Exclusions)
}

// appendHead appends the kind and the route of a message.
func appendHead(dst []byte, m *causal.Message, from, to topology.Node) []byte {
	dst = appendUint(dst, fKind, uint64(m.Kind))
	if m.From != from {
		dst = appendRoute(dst, fFrom, m.From)
	}
	if m.To != to {
		dst = appendRoute(dst, fTo, m.To)
	}
	return dst
}

func appendFields(dst []byte, f *causal.Fields) []byte {
	dst = appendUint(dst, fID, f.ID)
	dst = appendUint(dst, fSession, f.Session)
	dst = appendUint(dst, fSeq, f.Seq)
	dst = appendUint(dst, fEpoch, f.Epoch)
	dst = appendFixed(dst, fHLC, uint64(f.HLC))
	if f.Key != "" {
		dst = protowire.AppendTag(dst, fKey, protowire.BytesType)
		dst = protowire.AppendString(dst, f.Key)
	}
	dst = appendRecord(dst, fRecord, &f.Record)
	for i := range f.Deps {
		dst = appendDep(dst, fDeps, &f.Deps[i])
	}
	for i := range f.Versions {
		dst = appendVersionField(dst, fVersions, f.Versions[i])
	}
	dst = appendUint(dst, fRing, uint64(f.Ring))
	dst = appendUint(dst, fStatus, uint64(f.Status))
	dst = appendUint(dst, fErr, uint64(f.Err))
	dst = appendBool(dst, fClean, f.Clean)
	dst = appendBool(dst, fHit, f.Hit)
	dst = appendBool(dst, fVersionOnly, f.VersionOnly)
	dst = appendFixed(dst, fHash, f.Hash)
	dst = appendFixed(dst, fCut, uint64(f.Cut))
	dst = appendUint(dst, fDuration, protowire.EncodeZigZag(f.Duration))
	for i := range f.Vectors {
		dst = appendVector(dst, fVectors, &f.Vectors[i])
	}
	dst = appendBool(dst, fOlder, f.Older)
	dst = appendUint(dst, fMap, uint64(f.Map))
	dst = appendFixed(dst, fLocal, uint64(f.Local))
	dst = appendFixed(dst, fForeign, uint64(f.Foreign))
	return appendFixed(dst, fReadFrom, uint64(f.ReadFrom))
}

func appendFormer(dst []byte, f *causal.Former) []byte {
	if len(f.Latencies) > 0 {
		dst = protowire.AppendTag(dst, fLatencies, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(8*len(f.Latencies)))
		for _, l := range f.Latencies {
			dst = protowire.AppendFixed64(dst, math.Float64bits(l))
		}
	}
	for i := range f.Moved {
		dst = appendMoved(dst, fMoved, &f.Moved[i])
	}
	return dst
}

func appendExclusions(dst []byte, x causal.Exclusions) []byte {
	if len(x) == 0 {
		return dst
	}
	size := 0
	for _, n := range x {
		size += protowire.SizeVarint(uint64(n))
	}
	dst = protowire.AppendTag(dst, fExclusions, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	for _, n := range x {
		dst = protowire.AppendVarint(dst, uint64(n))
	}
	return dst
}

func appendMoved(dst []byte, num protowire.Number, m *causal.Moved) []byte {
	guess := len(m.Key) + len(m.Record.Value.Data) + 32
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	dst, start := openBytes(dst, guess)
	if m.Key != "" {
		dst = protowire.AppendTag(dst, fMovedKey, protowire.BytesType)
		dst = protowire.AppendString(dst, m.Key)
	}
	dst = appendRecord(dst, fMovedRecord, &m.Record)
	return closeBytes(dst, start, guess)
}

func appendRoute(dst []byte, num protowire.Number, n topology.Node) []byte {
	part, dc := uint64(n.Part), uint64(n.DC)
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	size := protowire.SizeVarint(part) + protowire.SizeVarint(dc) + protowire.SizeVarint(n.Index)
	if n.Member != 0 {
		size += protowire.SizeVarint(uint64(n.Member))
	}
	dst = protowire.AppendVarint(dst, uint64(size))
	dst = protowire.AppendVarint(dst, part)
	dst = protowire.AppendVarint(dst, dc)
	dst = protowire.AppendVarint(dst, n.Index)
	if n.Member != 0 {
		dst = protowire.AppendVarint(dst, uint64(n.Member))
	}
	return dst
}

func appendVersionField(dst []byte, num protowire.Number, v causal.Version) []byte {
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(sizeVersion(v)))
	return appendVersion(dst, v)
}

func appendVersion(dst []byte, v causal.Version) []byte {
	dst = appendFixed(dst, fVersionHLC, uint64(v.HLC))
	return appendUint(dst, fVersionOrigin, uint64(v.Origin))
}

func sizeVersion(v causal.Version) int {
	return sizeFixed(uint64(v.HLC)) + sizeUint(uint64(v.Origin))
}

func appendRecord(dst []byte, num protowire.Number, r *causal.Record) []byte {
	size := sizeVersion(r.Version) + sizeUint(protowire.EncodeZigZag(r.Value.ExpireAtMs))
	if n := len(r.Value.Data); n > 0 {
		size += 1 + protowire.SizeBytes(n)
	}
	if r.Value.Tombstone {
		size += 2
	}
	size += sizeUint(uint64(r.Value.Type))
	if size == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	dst = appendVersion(dst, r.Version)
	if len(r.Value.Data) > 0 {
		dst = protowire.AppendTag(dst, fRecordData, protowire.BytesType)
		dst = protowire.AppendBytes(dst, r.Value.Data)
	}
	dst = appendUint(dst, fRecordExpire, protowire.EncodeZigZag(r.Value.ExpireAtMs))
	dst = appendBool(dst, fRecordTomb, r.Value.Tombstone)
	return appendUint(dst, fRecordType, uint64(r.Value.Type))
}

func appendDep(dst []byte, num protowire.Number, d *causal.Dep) []byte {
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(sizeVersion(d.Version)+sizeUint(uint64(d.Slot))))
	dst = appendVersion(dst, d.Version)
	return appendUint(dst, fDepSlot, uint64(d.Slot))
}

func appendVector(dst []byte, num protowire.Number, e *causal.VectorEntry) []byte {
	size := sizeUint(uint64(e.Origin)) + sizeFixed(uint64(e.SV)) + sizeUint(uint64(e.Last)) +
		sizeFixed(uint64(e.Settled))
	if n := len(e.RV); n > 0 {
		size += 1 + protowire.SizeBytes(8*n)
	}
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	dst = appendUint(dst, fVectorOrigin, uint64(e.Origin))
	dst = appendFixed(dst, fVectorSV, uint64(e.SV))
	if len(e.RV) > 0 {
		dst = protowire.AppendTag(dst, fVectorRV, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(8*len(e.RV)))
		for _, h := range e.RV {
			dst = protowire.AppendFixed64(dst, uint64(h))
		}
	}
	dst = appendUint(dst, fVectorLast, uint64(e.Last))
	return appendFixed(dst, fVectorSettled, uint64(e.Settled))
}

func appendUint(dst []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, num, protowire.VarintType), v)
}

func appendFixed(dst []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendFixed64(protowire.AppendTag(dst, num, protowire.Fixed64Type), v)
}

func appendBool(dst []byte, num protowire.Number, v bool) []byte {
	if !v {
		return dst
	}
	return append(protowire.AppendTag(dst, num, protowire.VarintType), 1)
}

// sizeUint and sizeFixed are the sizes of a field with a number below 16.
func sizeUint(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(v)
}

func sizeFixed(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + 8
}
