package coordinator

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Scans at level Local (PROTOCOL HOM-9). A key that exists for the data center was written by a complete write, then
// every ring names it, or by an incomplete one, which is in the write buffer. So the home names the keys of its
// incomplete writes, in the order of their HLCs, up to the newest one of when the scan began: those that become
// complete meanwhile are named by the ring, which is asked afterwards, and a scan ends however much is written.

// maxHomeScan bounds the keys that one reply names.
const maxHomeScan = 1000

// homePlace is where a scan continues at the home: behind the write at after, and it ends with that at until.
type homePlace struct{ after, until causal.HLC }

func (p homePlace) String() string {
	return string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(p.after)), uint64(p.until)))
}

func parseHomePlace(s string) (p homePlace, ok bool) {
	if len(s) != 16 {
		return p, false
	}
	b := []byte(s)
	return homePlace{causal.HLC(binary.BigEndian.Uint64(b)), causal.HLC(binary.BigEndian.Uint64(b[8:]))}, true
}

// handleScan names keys of incomplete writes.
func (c *Coordinator) handleScan(now causal.Now, from topology.Node, s causal.Scan) {
	reply := causal.ScanReply{ID: s.ID}
	place, known := homePlace{until: c.buffer.newest}, true
	if s.Place != 0 {
		s.After, known = c.home.scanPlaces.Find(s.Place)
	}
	if known && s.After != "" {
		place, known = parseHomePlace(s.After)
	}
	switch {
	case !c.home.enabled, c.Membership() != Serving, !c.home.leases.isOpen(now), !c.home.has(s.Seen):
		reply.Err = causal.ErrUnavailable
	case s.Homes != 0 && int(s.Homes) != c.homeChange.count(): // it would miss the keys of a home
		c.homeChange.tell(from)
		reply.Err = causal.ErrUnavailable
	case !known:
		reply.Err = causal.ErrNotFound
	default:
		reply.Keys, reply.Next = c.buffer.keysAt(place, int(min(s.Limit, maxHomeScan)))
		if reply.Next != "" {
			reply.Place = c.home.scanPlaces.Add(reply.Next)
		}
	}
	c.Send(reply.Message(c.cfg.Self, from))
}

// keysAt returns about limit keys of incomplete writes from a place on, and where to continue; empty: these are all.
func (b *buffer) keysAt(p homePlace, limit int) (keys []string, next string) {
	from, _ := slices.BinarySearchFunc(b.writes, p.after+1, func(w *write, hlc causal.HLC) int {
		return cmp.Compare(w.rec.Version.HLC, hlc)
	})
	for _, w := range b.writes[from:] {
		switch hlc := w.rec.Version.HLC; {
		case hlc > p.until:
			return keys, ""
		case len(keys) >= max(limit, 1):
			return keys, p.String()
		case b.incomplete[hlc] == w && !w.rec.Value.Tombstone:
			keys = append(keys, w.key)
		}
		p.after = w.rec.Version.HLC
	}
	return keys, ""
}
