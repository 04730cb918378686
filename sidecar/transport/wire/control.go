package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Control is what a frame holds besides messages.
type Control struct {
	Probe Probe
	Roots Roots
	// Announcement comes before the messages of its frame.
	Announcement Announcement
	// Memory is what the decoded messages of the frame take, in bytes.
	Memory int64
}

// Announcement says in which leadership the sender serves the node that it is a member of.
type Announcement struct {
	Leadership causal.Leadership // zero: it does not serve
	// Number counts the announcements of a process from its start: whichever links they arrive on, the one with the
	// greatest number is the last one. 0: the process has announced nothing.
	Number uint64
}

const (
	fAnnouncementEpoch  = 1
	fAnnouncementLife   = 2
	fAnnouncementNumber = 3
)

// AppendAnnouncement appends an announcement to a frame.
func AppendAnnouncement(dst []byte, a Announcement) []byte {
	return appendAnnouncement(dst, fFrameAnnouncement, a)
}

func appendAnnouncement(dst []byte, num protowire.Number, a Announcement) []byte {
	if a.Number == 0 {
		return dst
	}
	var body []byte
	body = appendUint(body, fAnnouncementEpoch, a.Leadership.Epoch)
	body = appendUint(body, fAnnouncementLife, a.Leadership.Life)
	body = appendUint(body, fAnnouncementNumber, a.Number)
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	return protowire.AppendBytes(dst, body)
}

func (c *cursor) announcement() (a Announcement) {
	in := cursor{what: "announcement", b: c.bytes()}
	for in.next() {
		switch in.num {
		case fAnnouncementEpoch:
			a.Leadership.Epoch = in.uint(math.MaxUint64)
		case fAnnouncementLife:
			a.Leadership.Life = in.uint(math.MaxUint64)
		case fAnnouncementNumber:
			a.Number = in.uint(math.MaxUint64)
		default:
			in.skip()
		}
	}
	if in.err == nil && a.Number == 0 {
		in.fail(errors.New("an announcement without a number"))
	}
	c.adopt(&in)
	return a
}

// Probe is a question of one end of a link to the other: is anybody there?
type Probe uint8

// The probes. A reader that does not know them does not answer.
const (
	ProbeNone Probe = iota
	ProbeRequest
	ProbeAnswer
)

// AppendProbe appends a probe to a frame.
func AppendProbe(dst []byte, p Probe) []byte { return appendUint(dst, fFrameProbe, uint64(p)) }

// MaxRoots bounds Roots.
const MaxRoots = 16

// Roots are the authorities of the receiver's trust domain that the sender trusts: their digests (contract.RootDigest),
// in ascending order without repetition. nil is not known.
type Roots []uint64

const fRootsDigests = 1

// AppendRoots appends roots to a frame.
func AppendRoots(dst []byte, r Roots) []byte { return appendRoots(dst, fFrameRoots, r) }

func appendRoots(dst []byte, num protowire.Number, r Roots) []byte {
	if r == nil {
		return dst
	}
	var body []byte
	if len(r) > 0 {
		body = protowire.AppendTag(body, fRootsDigests, protowire.BytesType)
		body = protowire.AppendVarint(body, uint64(8*len(r)))
		for _, digest := range r {
			body = protowire.AppendFixed64(body, digest)
		}
	}
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	return protowire.AppendBytes(dst, body)
}

func (c *cursor) roots() Roots {
	r := Roots{}
	in := cursor{what: "roots", b: c.bytes()}
	for in.next() {
		if in.num != fRootsDigests {
			in.skip()
			continue
		}
		for list := in.fixedList(MaxRoots - len(r)); len(list) > 0; list = list[8:] {
			digest := binary.LittleEndian.Uint64(list)
			if len(r) > 0 && digest <= r[len(r)-1] {
				in.fail(fmt.Errorf("digests that are not in ascending order"))
				break
			}
			r = append(r, digest)
		}
	}
	c.adopt(&in)
	return r
}
