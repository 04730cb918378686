package session

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// exportToken returns what another sidecar needs to continue the session (PROTOCOL SES-18): the in-flight versions that
// the session has read, and its newest incomplete put. All of them must be in a ring before the ring is read from.
//
// It does not say which rings have them: whoever resumes asks the rings. A sidecar may claim anything, and a session
// that believed it would read from a ring without what it has seen.
func (s *Sidecar) exportToken(ss *session) string {
	all := make([]restriction, 0, len(ss.restrictions.list)+1)
	for _, r := range ss.restrictions.list {
		all = append(all, restriction{version: r.version, slot: r.slot, prefix: r.prefix})
	}
	if last := ss.own.last; !last.Version.IsZero() && !s.cfg.Broken.Has(causal.ResumeWithoutLast) {
		all = append(all, restriction{version: last.Version, slot: last.Slot})
	}
	newest := max(ss.floor, ss.seen) // seen is greater after a read of a dropped tombstone
	for _, r := range all {
		newest = max(newest, r.version.HLC)
	}
	b := binary.AppendUvarint(nil, uint64(newest))
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, r := range all {
		b = binary.AppendUvarint(b, uint64(newest-r.version.HLC))
		b = binary.AppendUvarint(b, uint64(r.version.Origin))
		if r.prefix {
			b = binary.AppendUvarint(b, prefixInToken)
			continue
		}
		b = binary.AppendUvarint(b, uint64(r.slot))
	}
	if n := len(s.exclusions); n > 0 {
		b = append(binary.AppendUvarint(b, uint64(n)), s.exclusions.Encode()...)
	}
	return string(b)
}

// CheckToken returns why a token cannot be resumed at this sidecar, or nil.
func (s *Sidecar) CheckToken(token string) error {
	_, err := s.parseToken(token)
	return err
}

var errMalformedToken = errors.New("the content of the token is malformed")

// parseToken decodes a token. Whoever has sealed it may be an attacker: it accepts nothing that could not be in the
// token of a session.
func (s *Sidecar) parseToken(token string) (*resumption, error) {
	b, malformed := []byte(token), false
	next := func(limit uint64) uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > limit {
			malformed, b = true, nil
			return 0
		}
		b = b[n:]
		return v
	}
	r := &resumption{seen: causal.HLC(next(^uint64(0)))}
	n := next(uint64(s.cfg.MaxRestrictions) + 1)
	for ; n > 0 && !malformed; n-- {
		e := restriction{version: causal.Version{HLC: r.seen - causal.HLC(next(uint64(r.seen)))}}
		e.version.Origin = topology.Origin(next(maxOrigin))
		if slot := next(prefixInToken); slot == prefixInToken {
			e.prefix = true
		} else {
			e.slot = topology.Slot(slot)
		}
		r.restrictions = append(r.restrictions, e)
		if malformed = malformed || e.version.HLC == 0 || e.version.Origin == 0; malformed {
			break
		}
		if int(e.version.Origin) > s.cfg.Topology.Origins() {
			// coordinators end the link of whoever names such a dependency
			return nil,
				fmt.Errorf(
					"the token names a write of origin %d, and the topology here has %d: export it again when all "+
						"sidecars have the same topology",
					e.version.Origin, s.cfg.Topology.Origins())
		}
	}
	if malformed {
		return nil, errMalformedToken
	}
	if r.exclusions, malformed = parseExclusions(b, len(s.cfg.Topology.DCs)); malformed {
		return nil, errMalformedToken
	}
	if !s.exclusions.With(s.knownExclusions).Covers(r.exclusions) {
		return nil, errTokenExclusions
	}
	return r, nil
}

var errTokenExclusions = errors.New(
	"the token was made where a data center is excluded, which the topology here does not say: try again when this " +
		"sidecar has the topology of the others")

// parseExclusions decodes the end of a token: nothing, or how many numbers follow, of which the last is not 0.
func parseExclusions(b []byte, dcs int) (x causal.Exclusions, malformed bool) {
	if len(b) == 0 {
		return nil, false
	}
	n, size := binary.Uvarint(b)
	if size <= 0 || n == 0 || n > uint64(dcs) {
		return nil, true
	}
	x, err := causal.ParseExclusions(b[size:])
	return x, err != nil || uint64(len(x)) != n || x[n-1] == 0
}

// prefixInToken is in the place of the slot of a restriction that stands for all writes of an origin up to its version.
// A sidecar of before homes refuses such a token.
const prefixInToken = topology.Slots

// maxOrigin is the greatest origin of any topology.
const maxOrigin = topology.MaxDCs * topology.MaxCoordinators
