// Package wire encodes and decodes the messages of the protocol.
//
// The format is protobuf (wire.proto), written and read by hand: a message is one flat struct, or a body that names its
// fields, so generated code would only add a second one and a copy between them. Readers skip unknown fields and refuse
// anything malformed with an error; no input makes them panic, and what they allocate is bounded by DecodedBytes.
//
// Decoded messages share no memory with the input. A value that lives on in a cache for hours must not keep a frame of
// other messages alive, so strings and data are copied.
package wire

import (
	"fmt"
	"unsafe"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// The gRPC names of the format.
const (
	Service = "causalstore.v1.Link"
	Method  = "/" + Service + "/Stream"
)

// The bounds that a reader insists on. Check says before sending whether a message is within them.
const (
	// MaxMessage is the size of one encoded message, in bytes.
	MaxMessage = causal.MaxMessageBytes
	// MaxBatch is the number of messages in one frame. No version has sent more.
	MaxBatch = 1 << 12
	// MaxList is the number of elements of a list in a message, but for dependencies: causal.MaxDeps.
	MaxList = 1 << 20
	// MaxDCs is the number of data centers that a list by DC can cover.
	MaxDCs = 1 << 16
)

// A list of elements that are encoded as nothing takes much more memory than bytes. The shortest elements that parts
// send, names of one byte, take 15 times as much: listFactor bounds what the lists of a frame take beyond minListBytes,
// and so does maxListBytes.
const (
	listFactor   = 16
	minListBytes = 4 << 10
	maxListBytes = 2 * MaxMessage
)

// listBytes returns what the lists in a frame of n bytes may take.
func listBytes(n int) int { return min(minListBytes+listFactor*n, maxListBytes) }

// largestBody is the size of the largest body, without its lists, in bytes.
const largestBody = int(unsafe.Sizeof(causal.HomeCommit{}))

// DecodedBytes returns what a frame of n bytes takes at most in memory once it is decoded.
func DecodedBytes(n int) int64 {
	messages := min(n/2, MaxBatch) * (int(unsafe.Sizeof(causal.Message{})) + largestBody)
	return int64(n + messages + listBytes(n))
}

// Field numbers of Message in wire.proto.
const (
	fKind        = 1
	fFrom        = 2
	fTo          = 3
	fID          = 4
	fSession     = 5
	fSeq         = 6
	fEpoch       = 7
	fHLC         = 8
	fKey         = 9
	fRecord      = 10
	fDeps        = 11
	fVersions    = 12
	fRing        = 13
	fStatus      = 14
	fErr         = 15
	fClean       = 16
	fHit         = 17
	fVersionOnly = 18
	fHash        = 19
	fCut         = 20
	fDuration    = 21
	fVectors     = 22
	fLatencies   = 23
	fOlder       = 24
	fMap         = 25
	fMoved       = 26
	fExclusions  = 27
	fLocal       = 28
	fForeign     = 29
	fReadFrom    = 30
)

// Field numbers of the smaller messages in wire.proto. Version, Record and Dep begin alike.
const (
	fVersionHLC    = 1
	fVersionOrigin = 2
	fRecordData    = 3
	fRecordExpire  = 4
	fRecordTomb    = 5
	fRecordType    = 6
	fDepSlot       = 3

	fVectorOrigin  = 1
	fVectorSV      = 2
	fVectorRV      = 3
	fVectorLast    = 4
	fVectorSettled = 5

	fMovedKey    = 1
	fMovedRecord = 2

	fFrameHello        = 1
	fFrameMessages     = 2
	fFrameProbe        = 3
	fFrameRoots        = 4
	fFrameAnnouncement = 5
)

// EstimateSize returns the approximate encoded size of m in bytes. It is cheap.
func EstimateSize(m *causal.Message) int {
	f := m.Fields()
	n := 40 + len(f.Key) + len(f.Record.Value.Data) + 16*len(f.Deps) + 14*len(f.Versions) + 2*len(f.Exclusions)
	for i := range f.Vectors {
		n += 24 + 8*len(f.Vectors[i].RV)
	}
	if m.Body() != nil {
		n += m.BodySize()
	}
	return n
}

// Check returns an error if a reader would refuse m. Senders call it first, because one such message makes the reader
// refuse the whole frame.
func Check(m *causal.Message) error {
	l := m.Lists()
	switch {
	case m.MaxEncodedSize() > MaxMessage:
		return fmt.Errorf("%s of up to %d bytes exceeds the limit of %d", m.Kind, m.MaxEncodedSize(), MaxMessage)
	case l.Deps > causal.MaxDeps:
		return fmt.Errorf("%s lists %d deps; at most %d fit", m.Kind, l.Deps, causal.MaxDeps)
	case l.Longest > MaxList:
		return fmt.Errorf("%s has a list of %d elements; at most %d fit", m.Kind, l.Longest, MaxList)
	case len(m.Fields().Exclusions) > MaxDCs:
		return fmt.Errorf("%s lists exclusions of %d data centers; at most %d fit", m.Kind,
			len(m.Fields().Exclusions), MaxDCs)
	case l.Slot >= topology.Slots:
		return fmt.Errorf("%s has a dependency in slot %d; slots end at %d", m.Kind, l.Slot, topology.Slots-1)
	case l.Rings > topology.MaxRings:
		return fmt.Errorf("%s has a vector over %d rings; there are at most %d", m.Kind, l.Rings, topology.MaxRings)
	}
	return nil
}
