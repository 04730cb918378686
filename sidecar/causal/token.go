package causal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// resumption is a token that waits to become part of a session.
type resumption struct {
	restrict []restriction
	seen     HLC
}

// tokenVersion is the first byte of a token.
const tokenVersion = 1

// macBytes is the length of the truncated HMAC-SHA-256 of a token.
const macBytes = 16

// export writes what another sidecar needs to go on with the session: what it has read in-flight and its newest write, as
// things that must be in a ring before it is read from (PROTOCOL §3).
func (s *Sidecar) export(ss *session) string {
	b := []byte{tokenVersion}
	b = binary.AppendUvarint(b, uint64(max(ss.floor, ss.seen))) // seen is above the floor after a read of a dropped tombstone
	n := len(ss.restrict)
	if !ss.last.Version.IsZero() {
		n++
	}
	b = binary.AppendUvarint(b, uint64(n))
	for _, r := range ss.restrict {
		b = appendRestriction(b, r.version, r.slot, r.rings)
	}
	if !ss.last.Version.IsZero() {
		b = appendRestriction(b, ss.last.Version, ss.last.Slot, 0)
	}
	return base64.RawURLEncoding.EncodeToString(append(b, s.mac(b)...))
}

func appendRestriction(b []byte, v Version, slot topology.Slot, rings topology.RingSet) []byte {
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

// CheckToken reports why a token cannot be resumed here, or nil.
func (s *Sidecar) CheckToken(token string) error {
	_, err := s.parseToken(token)
	return err
}

var errToken = errors.New("the token is damaged")

func (s *Sidecar) parseToken(token string) (*resumption, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) < macBytes+1 {
		return nil, errToken
	}
	b, mac := b[:len(b)-macBytes], b[len(b)-macBytes:]
	if !hmac.Equal(mac, s.mac(b)) {
		return nil, errors.New("the token was not made by this deployment, or it was changed")
	}
	if b[0] != tokenVersion {
		return nil, fmt.Errorf("the token has format %d; this sidecar reads format %d", b[0], tokenVersion)
	}
	b = b[1:]
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err = errToken
			return 0
		}
		b = b[n:]
		return v
	}
	r := &resumption{seen: HLC(next())}
	for n := next(); n > 0 && err == nil; n-- {
		e := restriction{version: Version{HLC: HLC(next()), Origin: topology.Origin(next())}}
		e.slot, e.rings = topology.Slot(next()), topology.RingSet(next())
		if e.slot >= topology.Slots {
			err = errToken
		}
		r.restrict = append(r.restrict, e)
	}
	if err != nil || len(b) != 0 {
		return nil, errToken
	}
	return r, nil
}

// resume makes the past of a token part of the session's.
func (s *Sidecar) resume(now Now, c *call) {
	r, err := s.parseToken(c.op.Token)
	if err != nil {
		s.finish(c, Result{Err: ErrNotFound})
		return
	}
	if s.cfg.Broken.has(ResumeWithoutLast) && len(r.restrict) > 0 && r.restrict[len(r.restrict)-1].rings == 0 {
		r.restrict = r.restrict[:len(r.restrict)-1]
	}
	c.resume = r
	if !s.tryResume(now, c) {
		s.askForResume(now, c)
		s.parked = append(s.parked, c)
	}
}

// askForResume asks every ring for what nobody has told of yet; the vectors may tell first.
func (s *Sidecar) askForResume(now Now, c *call) {
	c.dueAt = now.Mono + int64(500*time.Millisecond)
	for i := range c.resume.restrict {
		s.notifyAfter(&c.resume.restrict[i], c.resume.restrict[i].clean)
	}
}

// tryResume joins the token's past to the session's as soon as one ring has both.
func (s *Sidecar) tryResume(now Now, c *call) bool {
	ss, rings := c.s, s.rings(c.s)
	open := make([]*restriction, 0, len(c.resume.restrict))
	for i := range c.resume.restrict {
		r := &c.resume.restrict[i]
		if s.known.Complete(r.version) || r.clean == s.cfg.Topology.AllRings() || ss.mine(r.version) {
			continue
		}
		r.rings |= s.known.RingsWith(r.version)
		rings &= r.rings
		open = append(open, r)
	}
	if rings == 0 {
		return false
	}
	for _, r := range open {
		s.bind(now, ss, r.version, r.slot, r.rings)
	}
	ss.seen, ss.floor = max(ss.seen, c.resume.seen), max(ss.floor, c.resume.seen)
	s.finish(c, Result{})
	return true
}
