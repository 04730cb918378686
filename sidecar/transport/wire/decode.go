package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Decode replaces *m by the message encoded in b, without aliasing b. Empty lists and data come out nil.
// On an error *m is unspecified.
func Decode(b []byte, m *causal.Message) error {
	*m = causal.Message{}
	_, err := decodeMessage(b, m, &depRoom{}, listBytes(len(b)))
	return err
}

// DecodeFrame appends the messages of the frame in b to dst, without aliasing b, and returns what else is in it. On an
// error none is appended.
func DecodeFrame(b []byte, dst []causal.Message) ([]causal.Message, Control, error) {
	first := len(dst)
	c := cursor{what: "frame", b: b}
	var from, to topology.Node
	var control Control
	bodies := 0
	var room depRoom
	listRoom := listBytes(len(b))
	for c.next() {
		switch c.num {
		case fFrameMessages:
		case fFrameProbe:
			control.Probe = Probe(c.uint(math.MaxUint8))
			continue
		case fFrameRoots:
			control.Roots = c.roots()
			continue
		case fFrameAnnouncement:
			control.Announcement = c.announcement()
			continue
		default:
			c.skip()
			continue
		}
		if len(dst)-first >= MaxBatch {
			c.fail(fmt.Errorf("more than %d messages", MaxBatch))
			break
		}
		body := c.bytes()
		if c.err != nil {
			break
		}
		dst = append(dst, causal.Message{From: from, To: to})
		m := &dst[len(dst)-1]
		room.like = len(c.b) / max(1, len(body))
		var err error
		if listRoom, err = decodeMessage(body, m, &room, listRoom); err != nil {
			c.fail(err)
			break
		}
		from, to = m.From, m.To
		if m.Body() != nil {
			bodies++
		}
	}
	if c.err != nil {
		clear(dst[first:])
		return dst[:first], Control{}, c.err
	}
	control.Memory = int64(len(b) + (len(dst)-first)*int(unsafe.Sizeof(causal.Message{})) + bodies*largestBody +
		listBytes(len(b)) - listRoom)
	return dst, control, nil
}

// depRoom has room for the dependencies of the messages of a frame, so that they need not be allocated one by one. Puts
// have few.
type depRoom struct {
	free []causal.Dep
	like int // how many messages like the present one may follow
}

// maxDepRoom bounds what is allocated for several messages, since a message that is kept keeps all of it.
const maxDepRoom = 32

// take returns an empty list with room for n.
func (r *depRoom) take(n int) []causal.Dep {
	if n > len(r.free) {
		size := max(n, min(n*(r.like+1), maxDepRoom))
		r.free = make([]causal.Dep, size)
	}
	list := r.free[:0:n]
	r.free = r.free[n:]
	return list
}

// decodeMessage decodes a message of which the lists may take listRoom bytes, and returns what is left of them.
func decodeMessage(b []byte, m *causal.Message, room *depRoom, listRoom int) (left int, err error) {
	if len(b) > MaxMessage {
		return listRoom, fmt.Errorf("message: %d bytes exceed the limit of %d", len(b), MaxMessage)
	}
	f := m.Fields()
	var former causal.Former
	c := cursor{what: "message", b: b, listRoom: listRoom, bounded: true}
	bodyOf := causal.KindNone // the kind whose body was read
	for c.next() {
		switch c.num {
		case fKind:
			m.Kind = causal.Kind(c.uint(math.MaxUint8))
		case fFrom:
			m.From = c.route()
		case fTo:
			m.To = c.route()
		case fID:
			f.ID = c.uint(math.MaxUint64)
		case fSession:
			f.Session = c.uint(math.MaxUint64)
		case fSeq:
			f.Seq = c.uint(math.MaxUint64)
		case fEpoch:
			f.Epoch = c.uint(math.MaxUint64)
		case fHLC:
			f.HLC = causal.HLC(c.fixed())
		case fKey:
			f.Key = string(c.bytes())
		case fRecord:
			c.record(&f.Record)
		case fDeps:
			if f.Deps == nil {
				if n := min(c.countRun(), causal.MaxDeps); takeRoom[causal.Dep](&c, n) {
					f.Deps = room.take(n)
				}
			}
			f.Deps = grow(&c, f.Deps, causal.MaxDeps)
			f.Deps = append(f.Deps, c.dep())
		case fVersions:
			f.Versions = grow(&c, f.Versions, MaxList)
			f.Versions = append(f.Versions, c.version())
		case fVectors:
			f.Vectors = grow(&c, f.Vectors, MaxList)
			f.Vectors = append(f.Vectors, c.vector())
		case fLatencies:
			former.Latencies = c.floats(former.Latencies)
		case fExclusions:
			f.Exclusions = c.exclusions(f.Exclusions)
		case fMoved:
			former.Moved = grow(&c, former.Moved, MaxList)
			former.Moved = append(former.Moved, c.moved())
		default:
			if c.num > fBody && c.num < fBody+protowire.Number(causal.NumKinds) {
				if bodyOf != causal.KindNone {
					c.fail(errors.New("a message has one body"))
					break
				}
				if bodyOf = causal.Kind(c.num - fBody); causal.NewBody(bodyOf) != nil {
					m.SetBody(causal.NewBody(bodyOf))
					c.body(m.Body())
					continue
				}
			}
			c.small(f)
		}
	}
	if c.err == nil && bodyOf != causal.KindNone && bodyOf != m.Kind {
		return c.listRoom, fmt.Errorf("message: of kind %s with the body of kind %s", m.Kind, bodyOf)
	}
	m.MakeBody(former) // of a process that does not know that the kind has a body
	return c.listRoom, c.err
}

// small reads the scalar fields with a narrow range, and skips fields of a later version.
func (c *cursor) small(f *causal.Fields) {
	switch c.num {
	case fRing:
		f.Ring = topology.RingID(c.uint(math.MaxUint8))
	case fStatus:
		f.Status = causal.Status(c.uint(math.MaxUint8))
	case fErr:
		f.Err = causal.ErrCode(c.uint(math.MaxUint8))
	case fClean:
		f.Clean = c.bool()
	case fHit:
		f.Hit = c.bool()
	case fVersionOnly:
		f.VersionOnly = c.bool()
	case fOlder:
		f.Older = c.bool()
	case fMap:
		f.Map = topology.MapID(c.uint(math.MaxUint32))
	case fHash:
		f.Hash = c.fixed()
	case fLocal:
		f.Local = causal.HLC(c.fixed())
	case fForeign:
		f.Foreign = causal.HLC(c.fixed())
	case fReadFrom:
		f.ReadFrom = causal.HLC(c.fixed())
	case fCut:
		f.Cut = causal.HLC(c.fixed())
	case fDuration:
		f.Duration = protowire.DecodeZigZag(c.uint(math.MaxUint64))
	default:
		c.skip()
	}
}

// exclusions reads a packed list of numbers.
func (c *cursor) exclusions(x causal.Exclusions) causal.Exclusions {
	for b := c.bytes(); len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		switch {
		case n < 0:
			c.fail(protowire.ParseError(n))
			return nil
		case v > math.MaxUint32 || len(x) >= MaxDCs:
			c.fail(fmt.Errorf("exclusions: data center %d was excluded %d times", len(x), v))
			return nil
		}
		x, b = append(x, uint32(v)), b[n:]
	}
	return x
}

func (c *cursor) bool() bool { return c.uint(math.MaxUint64) != 0 }

func (c *cursor) route() topology.Node {
	b := c.bytes()
	var v [4]uint64 // further ones would be of a later version
	for i := 0; len(b) > 0; i++ {
		x, n := protowire.ConsumeVarint(b)
		if n < 0 {
			c.fail(protowire.ParseError(n))
			return topology.Node{}
		}
		if i < len(v) {
			v[i] = x
		}
		b = b[n:]
	}
	if v[0] > math.MaxUint8 || v[1] > math.MaxUint16 || v[3] > math.MaxUint8 {
		c.fail(fmt.Errorf("node with part %d, dc %d, member %d", v[0], v[1], v[3]))
		return topology.Node{}
	}
	return topology.Node{Part: topology.Part(v[0]), DC: topology.DC(v[1]), Index: v[2], Member: uint8(v[3])}
}

func (c *cursor) record(r *causal.Record) {
	in := cursor{what: "record", b: c.bytes()}
	for in.next() {
		switch in.num {
		case fRecordData:
			if data := in.bytes(); len(data) > 0 {
				r.Value.Data = bytes.Clone(data)
			}
		case fRecordExpire:
			r.Value.ExpireAtMs = protowire.DecodeZigZag(in.uint(math.MaxUint64))
		case fRecordTomb:
			r.Value.Tombstone = in.bool()
		case fRecordType:
			r.Value.Type = causal.TypeID(in.uint(math.MaxUint8))
		default:
			in.versionField(&r.Version)
		}
	}
	c.adopt(&in)
}

func (c *cursor) moved() (m causal.Moved) {
	in := cursor{what: "moved record", b: c.bytes()}
	for in.next() {
		switch in.num {
		case fMovedKey:
			m.Key = string(in.bytes())
		case fMovedRecord:
			in.record(&m.Record)
		default:
			in.skip()
		}
	}
	c.adopt(&in)
	return m
}

func (c *cursor) version() (v causal.Version) {
	in := cursor{what: "version", b: c.bytes()}
	for in.next() {
		in.versionField(&v)
	}
	c.adopt(&in)
	return v
}

func (c *cursor) dep() (d causal.Dep) {
	in := cursor{what: "dep", b: c.bytes()}
	for in.next() {
		if in.num == fDepSlot {
			// A slot indexes tables, so one that does not exist must not get past here.
			d.Slot = topology.Slot(in.uint(topology.Slots - 1))
			continue
		}
		in.versionField(&d.Version)
	}
	c.adopt(&in)
	return d
}

// versionField reads a field of Version, which Record and Dep begin with, and skips any other.
func (c *cursor) versionField(v *causal.Version) {
	switch c.num {
	case fVersionHLC:
		v.HLC = causal.HLC(c.fixed())
	case fVersionOrigin:
		v.Origin = topology.Origin(c.uint(math.MaxUint32))
	default:
		c.skip()
	}
}

func (c *cursor) vector() (e causal.VectorEntry) {
	in := cursor{what: "vector", b: c.bytes()}
	for in.next() {
		switch in.num {
		case fVectorOrigin:
			e.Origin = topology.Origin(in.uint(math.MaxUint32))
		case fVectorLast:
			e.Last = topology.Origin(in.uint(math.MaxUint32))
		case fVectorSV:
			e.SV = causal.HLC(in.fixed())
		case fVectorSettled:
			e.Settled = causal.HLC(in.fixed())
		case fVectorRV:
			list := in.fixedList(topology.MaxRings - len(e.RV))
			if e.RV == nil && len(list) > 0 {
				e.RV = make([]causal.HLC, 0, len(list)/8)
			}
			for ; len(list) > 0; list = list[8:] {
				e.RV = append(e.RV, causal.HLC(binary.LittleEndian.Uint64(list)))
			}
		default:
			in.skip()
		}
	}
	c.adopt(&in)
	return e
}

func (c *cursor) floats(dst []float64) []float64 {
	list := c.fixedList(MaxDCs - len(dst))
	if dst == nil && len(list) > 0 {
		dst = make([]float64, 0, len(list)/8)
	}
	for ; len(list) > 0; list = list[8:] {
		dst = append(dst, math.Float64frombits(binary.LittleEndian.Uint64(list)))
	}
	return dst
}

// adopt takes over the fault of the walk over an inner message.
func (c *cursor) adopt(in *cursor) {
	if in.err != nil {
		c.fail(in.err)
	}
}
