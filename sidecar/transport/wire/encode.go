package wire

import (
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// Append appends the encoding of m to dst and returns the extended buffer.
func Append(dst []byte, m *causal.Message) []byte {
	return appendMessage(dst, m, topology.Node{}, topology.Node{})
}

// AppendBatch appends a frame that holds msgs to dst and returns the extended buffer.
func AppendBatch(dst []byte, msgs []causal.Message) []byte {
	b := Batch{Buf: dst}
	for i := range msgs {
		b.Add(&msgs[i])
	}
	return b.Buf
}

// Batch builds a frame one message at a time, in Buf. The zero Batch is empty.
type Batch struct {
	Buf []byte
	// from and to are those of the last message: most frames go from one node to one other, and name them once.
	from, to topology.Node
}

// Add appends m to the frame.
func (b *Batch) Add(m *causal.Message) {
	size := EstimateSize(m)
	dst := slices.Grow(b.Buf, size+16)
	dst = protowire.AppendTag(dst, fFrameMessages, protowire.BytesType)
	dst, start := openBytes(dst, size)
	dst = appendMessage(dst, m, b.from, b.to)
	b.Buf = closeBytes(dst, start, size)
	b.from, b.to = m.From, m.To
}

// openBytes leaves room for the length of something of about guess bytes; closeBytes fills it in. A wrong guess costs a
// move of the bytes, which is cheaper than computing every length beforehand.
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
	dst = appendUint(dst, fKind, uint64(m.Kind))
	if m.From != from {
		dst = appendRoute(dst, fFrom, m.From)
	}
	if m.To != to {
		dst = appendRoute(dst, fTo, m.To)
	}
	dst = appendUint(dst, fID, m.ID)
	dst = appendUint(dst, fSession, m.Session)
	dst = appendUint(dst, fSeq, m.Seq)
	dst = appendUint(dst, fEpoch, m.Epoch)
	dst = appendFixed(dst, fHLC, uint64(m.HLC))
	if m.Key != "" {
		dst = protowire.AppendTag(dst, fKey, protowire.BytesType)
		dst = protowire.AppendString(dst, m.Key)
	}
	dst = appendRecord(dst, fRecord, &m.Record)
	for i := range m.Deps {
		dst = appendDep(dst, &m.Deps[i])
	}
	for i := range m.Versions {
		dst = protowire.AppendTag(dst, fVersions, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(sizeVersion(m.Versions[i])))
		dst = appendVersion(dst, m.Versions[i])
	}
	dst = appendUint(dst, fRing, uint64(m.Ring))
	dst = appendUint(dst, fStatus, uint64(m.Status))
	dst = appendUint(dst, fErr, uint64(m.Err))
	dst = appendBool(dst, fClean, m.Clean)
	dst = appendBool(dst, fHit, m.Hit)
	dst = appendBool(dst, fVersionOnly, m.VersionOnly)
	dst = appendFixed(dst, fHash, m.Hash)
	dst = appendFixed(dst, fCut, uint64(m.Cut))
	dst = appendUint(dst, fDuration, protowire.EncodeZigZag(m.Duration))
	for i := range m.Vectors {
		dst = appendVector(dst, &m.Vectors[i])
	}
	if len(m.Latencies) > 0 {
		dst = protowire.AppendTag(dst, fLatencies, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(8*len(m.Latencies)))
		for _, l := range m.Latencies {
			dst = protowire.AppendFixed64(dst, math.Float64bits(l))
		}
	}
	dst = appendBool(dst, fOlder, m.Older)
	dst = appendUint(dst, fMap, uint64(m.Map))
	for i := range m.Moved {
		dst = appendMoved(dst, &m.Moved[i])
	}
	return dst
}

func appendMoved(dst []byte, m *causal.Moved) []byte {
	guess := len(m.Key) + len(m.Record.Value.Data) + 32
	dst = protowire.AppendTag(dst, fMoved, protowire.BytesType)
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
	dst = protowire.AppendVarint(dst, uint64(protowire.SizeVarint(part)+protowire.SizeVarint(dc)+protowire.SizeVarint(n.Index)))
	dst = protowire.AppendVarint(dst, part)
	dst = protowire.AppendVarint(dst, dc)
	return protowire.AppendVarint(dst, n.Index)
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
	return appendBool(dst, fRecordTomb, r.Value.Tombstone)
}

func appendDep(dst []byte, d *causal.Dep) []byte {
	dst = protowire.AppendTag(dst, fDeps, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(sizeVersion(d.Version)+sizeUint(uint64(d.Slot))))
	dst = appendVersion(dst, d.Version)
	return appendUint(dst, fDepSlot, uint64(d.Slot))
}

func appendVector(dst []byte, e *causal.VectorEntry) []byte {
	size := sizeUint(uint64(e.Origin)) + sizeFixed(uint64(e.SV)) + sizeUint(uint64(e.Last))
	if n := len(e.RV); n > 0 {
		size += 1 + protowire.SizeBytes(8*n)
	}
	dst = protowire.AppendTag(dst, fVectors, protowire.BytesType)
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
	return appendUint(dst, fVectorLast, uint64(e.Last))
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
