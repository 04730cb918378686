package wire

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/causalstore/causalstore/topology"
)

// The version of the link protocol, and the oldest compatible one. A new field that readers may ignore needs no new
// version.
const (
	Protocol    = 3
	MinProtocol = 1
)

// MaxNodes bounds the nodes of one process. MaxProcessName and MaxVersion bound texts, in bytes.
const (
	MaxNodes       = 1 << 16
	MaxProcessName = 256
	MaxVersion     = 128
)

// Hello describes a process. It is the first frame in each direction of a link.
type Hello struct {
	Protocol      uint32
	MinProtocol   uint32
	Process       string
	Incarnation   uint64
	Link          uint64
	TopologyEpoch uint64
	Nodes         []topology.Node
	// StartedMs is when the process was started, by its own clock, in milliseconds since the epoch; 0: unknown.
	StartedMs uint64
	// Renews says that the link has a stream, which ends in order once this one is open.
	Renews bool
	// Manifest is what all processes of a deployment must have alike.
	Manifest Manifest
	// Version is that of the build, for status. It is empty if it is not known.
	Version string
	// Roots are the authorities of the receiver's trust domain that the sender trusts. Later frames may replace them.
	Roots Roots
	// Announcement is the last one of the sender. Later frames may replace it.
	Announcement Announcement
}

// Manifest holds hashes of what all processes of a deployment must have alike: origins follow the order of the data
// centers, so a process with another order speaks for origins that are not its own. 0 is not known: processes of the
// first version do not say.
type Manifest struct {
	DataCenters uint64 // their names, in order
	Rings       uint64 // their names and members, in order
	Binding     uint64
}

// Differences names what two manifests are known to have different.
func (m Manifest) Differences(other Manifest) (all []string) {
	for _, part := range []struct {
		name         string
		mine, theirs uint64
	}{
		{"another list of data centers", m.DataCenters, other.DataCenters},
		{"other rings", m.Rings, other.Rings},
		{"another binding", m.Binding, other.Binding},
	} {
		if part.mine != 0 && part.theirs != 0 && part.mine != part.theirs {
			all = append(all, part.name)
		}
	}
	return all
}

// StartedBefore reports whether the sender of h is known to have been started before that of other. Of two with the
// same time, the incarnation decides, so that all peers decide alike.
func (h *Hello) StartedBefore(other *Hello) bool {
	if h.StartedMs == 0 || other.StartedMs == 0 {
		return false
	}
	return h.StartedMs < other.StartedMs || h.StartedMs == other.StartedMs && h.Incarnation < other.Incarnation
}

// ErrProtocol is wrapped by the errors of Compatible.
var ErrProtocol = errors.New("the link protocols have no version in common")

// Compatible returns an error if this process and the sender of h support no common protocol version.
func (h *Hello) Compatible() error {
	if h.Protocol < MinProtocol || h.MinProtocol > Protocol {
		return fmt.Errorf(
			"%w: process %q speaks %d down to %d, this one %d down to %d; upgrade the older one through a version "+
				"that supports both",
			ErrProtocol, h.Process, h.Protocol, h.MinProtocol, Protocol, MinProtocol)
	}
	return nil
}

const (
	fHelloProtocol    = 1
	fHelloMin         = 2
	fHelloProcess     = 3
	fHelloIncarnation = 4
	fHelloLink        = 5
	fHelloEpoch       = 6
	fHelloNodes       = 7
	fHelloStarted     = 8
	fHelloRenews      = 9
	fHelloManifest    = 10
	fHelloVersion     = 11
	fHelloRoots       = 12
	fHelloAnnounced   = 13

	fManifestDCs     = 1
	fManifestRings   = 2
	fManifestBinding = 3

	fNodeIndex  = 1
	fNodeDC     = 2
	fNodePart   = 3
	fNodeMember = 4
)

// AppendHello appends a frame that holds h to dst and returns the extended buffer.
func AppendHello(dst []byte, h *Hello) []byte {
	var body []byte
	body = appendUint(body, fHelloProtocol, uint64(h.Protocol))
	body = appendUint(body, fHelloMin, uint64(h.MinProtocol))
	if h.Process != "" {
		body = protowire.AppendTag(body, fHelloProcess, protowire.BytesType)
		body = protowire.AppendString(body, h.Process)
	}
	body = appendUint(body, fHelloIncarnation, h.Incarnation)
	body = appendUint(body, fHelloLink, h.Link)
	body = appendUint(body, fHelloEpoch, h.TopologyEpoch)
	body = appendUint(body, fHelloStarted, h.StartedMs)
	if h.Renews {
		body = appendUint(body, fHelloRenews, 1)
	}
	if h.Manifest != (Manifest{}) {
		var m []byte
		m = appendFixed(m, fManifestDCs, h.Manifest.DataCenters)
		m = appendFixed(m, fManifestRings, h.Manifest.Rings)
		m = appendFixed(m, fManifestBinding, h.Manifest.Binding)
		body = protowire.AppendTag(body, fHelloManifest, protowire.BytesType)
		body = protowire.AppendBytes(body, m)
	}
	if h.Version != "" {
		body = protowire.AppendTag(body, fHelloVersion, protowire.BytesType)
		body = protowire.AppendString(body, h.Version)
	}
	body = appendRoots(body, fHelloRoots, h.Roots)
	body = appendAnnouncement(body, fHelloAnnounced, h.Announcement)
	for _, n := range h.Nodes {
		body = protowire.AppendTag(body, fHelloNodes, protowire.BytesType)
		body = protowire.AppendVarint(body, uint64(sizeUint(n.Index)+sizeUint(uint64(n.DC))+sizeUint(uint64(n.Part))+
			sizeUint(uint64(n.Member))))
		body = appendUint(body, fNodeIndex, n.Index)
		body = appendUint(body, fNodeDC, uint64(n.DC))
		body = appendUint(body, fNodePart, uint64(n.Part))
		body = appendUint(body, fNodeMember, uint64(n.Member))
	}
	dst = protowire.AppendTag(dst, fFrameHello, protowire.BytesType)
	return protowire.AppendBytes(dst, body)
}

// DecodeHello returns the hello in the frame b, or an error if there is none.
func DecodeHello(b []byte) (*Hello, error) {
	c := cursor{what: "frame", b: b}
	var h *Hello
	for c.next() {
		if c.num != fFrameHello {
			c.skip()
			continue
		}
		h = &Hello{}
		c.hello(h)
	}
	if c.err != nil {
		return nil, c.err
	}
	if h == nil {
		return nil, fmt.Errorf("the first frame of the link contains no hello: the peer is not a CausalStore process")
	}
	return h, nil
}

func (c *cursor) hello(h *Hello) {
	in := cursor{what: "hello", b: c.bytes()}
	for in.next() {
		switch in.num {
		case fHelloProtocol:
			h.Protocol = uint32(in.uint(math.MaxUint32))
		case fHelloMin:
			h.MinProtocol = uint32(in.uint(math.MaxUint32))
		case fHelloProcess:
			h.Process = in.name("process name", MaxProcessName)
		case fHelloIncarnation:
			h.Incarnation = in.uint(math.MaxUint64)
		case fHelloLink:
			h.Link = in.uint(math.MaxUint64)
		case fHelloEpoch:
			h.TopologyEpoch = in.uint(math.MaxUint64)
		case fHelloStarted:
			h.StartedMs = in.uint(math.MaxInt64)
		case fHelloRenews:
			h.Renews = in.bool()
		case fHelloManifest:
			h.Manifest = in.manifest()
		case fHelloVersion:
			h.Version = in.name("version", MaxVersion)
		case fHelloRoots:
			h.Roots = in.roots()
		case fHelloAnnounced:
			h.Announcement = in.announcement()
		case fHelloNodes:
			h.Nodes = grow(&in, h.Nodes, MaxNodes)
			h.Nodes = append(h.Nodes, in.node())
		default:
			in.skip()
		}
	}
	c.adopt(&in)
}

// name consumes a text of at most max bytes.
func (c *cursor) name(what string, max int) string {
	b := c.bytes()
	if !utf8.Valid(b) || len(b) > max {
		c.fail(fmt.Errorf("a %s must be valid UTF-8 of at most %d bytes", what, max))
		return ""
	}
	return string(b)
}

func (c *cursor) manifest() (m Manifest) {
	in := cursor{what: "manifest", b: c.bytes()}
	for in.next() {
		switch in.num {
		case fManifestDCs:
			m.DataCenters = in.fixed()
		case fManifestRings:
			m.Rings = in.fixed()
		case fManifestBinding:
			m.Binding = in.fixed()
		default:
			in.skip()
		}
	}
	c.adopt(&in)
	return m
}

func (c *cursor) node() (n topology.Node) {
	in := cursor{what: "node", b: c.bytes()}
	for in.next() {
		switch in.num {
		case fNodeIndex:
			n.Index = in.uint(math.MaxUint64)
		case fNodeDC:
			n.DC = topology.DC(in.uint(math.MaxUint16))
		case fNodePart:
			n.Part = topology.Part(in.uint(math.MaxUint8))
		case fNodeMember:
			n.Member = uint8(in.uint(math.MaxUint8))
		default:
			in.skip()
		}
	}
	c.adopt(&in)
	return n
}
