package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// tokenVersion is the first byte of a token.
const tokenVersion = 1

// macBytes is the length of the truncated HMAC-SHA-256 at the end of a token.
const macBytes = 16

// exportToken returns a token with which another sidecar can continue the session (PROTOCOL §3). It holds the in-flight
// versions that the session has read, and its newest incomplete put: what must be in a ring before the ring is read from.
func (s *Sidecar) exportToken(ss *session) string {
	b := []byte{tokenVersion}
	b = binary.AppendUvarint(b, uint64(max(ss.floor, ss.seen))) // seen is greater after a read of a dropped tombstone
	n := len(ss.restrictions.list)
	last := ss.own.last
	if !last.Version.IsZero() {
		n++
	}
	b = binary.AppendUvarint(b, uint64(n))
	for _, r := range ss.restrictions.list {
		b = appendRestriction(b, r.version, r.slot, r.rings)
	}
	if !last.Version.IsZero() {
		b = appendRestriction(b, last.Version, last.Slot, 0)
	}
	return base64.RawURLEncoding.EncodeToString(append(b, s.mac(b)...))
}

func appendRestriction(b []byte, v causal.Version, slot topology.Slot, rings topology.RingSet) []byte {
	b = binary.AppendUvarint(b, uint64(v.HLC))
	b = binary.AppendUvarint(b, uint64(v.Origin))
	b = binary.AppendUvarint(b, uint64(slot))
	return binary.AppendUvarint(b, uint64(rings))
}

func (s *Sidecar) mac(b []byte) []byte {
	h := hmac.New(sha256.New, s.cfg.TokenKey)
	h.Write(b)
	return h.Sum(nil)[:macBytes]
}

// CheckToken returns why a token cannot be resumed at this sidecar, or nil.
func (s *Sidecar) CheckToken(token string) error {
	_, err := s.parseToken(token)
	return err
}

var errMalformedToken = errors.New("the token is malformed: pass it exactly as CAUSAL TOKEN returned it")

// parseToken authenticates and decodes a token.
func (s *Sidecar) parseToken(token string) (*resumption, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) < macBytes+1 {
		return nil, errMalformedToken
	}
	b, mac := b[:len(b)-macBytes], b[len(b)-macBytes:]
	if !hmac.Equal(mac, s.mac(b)) {
		return nil, errors.New("the token was altered, or is from a deployment with another token key")
	}
	if b[0] != tokenVersion {
		return nil, fmt.Errorf("the token has format version %d, but this sidecar reads version %d: export it again", b[0], tokenVersion)
	}
	b = b[1:]
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err = errMalformedToken
			return 0
		}
		b = b[n:]
		return v
	}
	r := &resumption{seen: causal.HLC(next())}
	for n := next(); n > 0 && err == nil; n-- {
		e := restriction{version: causal.Version{HLC: causal.HLC(next()), Origin: topology.Origin(next())}}
		e.slot, e.rings = topology.Slot(next()), topology.RingSet(next())
		if e.slot >= topology.Slots {
			err = errMalformedToken
		}
		r.restrictions = append(r.restrictions, e)
	}
	if err != nil || len(b) != 0 {
		return nil, errMalformedToken
	}
	return r, nil
}
