package trust

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/causalstore/causalstore/authority"
)

// The verbs of rotation requests. What follows names the authority that the request is about by its fingerprint, so
// that a request that stays where it is asks for one thing only once.
const (
	// RotateBegin asks for a successor of the authority that issues. It issues once it is accepted wherever the region
	// has links.
	RotateBegin = "begin"
	// RotateForce asks that the next authority issues at once.
	RotateForce = "force"
)

// RotationRequest returns the value of AnnotationRotate that asks for a step.
func RotationRequest(verb, fingerprint string) string { return verb + " " + fingerprint }

// Advance returns the authorities as they should be at a time, given the last request and whether the next authority is
// accepted, and whether they have changed. It drops what has retired.
func (a Authorities) Advance(request string, accepted bool, now time.Time) (Authorities, bool, error) {
	before := a
	a.Retired = slices.DeleteFunc(slices.Clone(a.Retired), func(r Retired) bool { return !now.Before(r.Until) })
	verb, fingerprint, _ := strings.Cut(request, " ")
	switch {
	case verb == RotateBegin && a.Issuing.own != nil && a.Next == nil && len(a.Retired)+2 <= maxAuthorities &&
		fingerprint == Fingerprint(a.Issuing.Certificate()):
		var err error
		if a, err = a.begin(now); err != nil {
			return before, false, err
		}
	case a.Next != nil && (accepted || verb == RotateForce && fingerprint == Fingerprint(a.Next.Certificate())):
		a.Retired = append([]Retired{{&Root{cert: a.Issuing.cert}, now.Add(retireTime)}}, a.Retired...)
		a.Issuing, a.IssuingSince, a.Next, a.NextSince = a.Next, now, nil, time.Time{}
	}
	return a.changedFrom(before, now)
}

// Restore continues after a backup of the authorities was restored: others know a later sequence, and would refuse this
// bundle. It reports whether it has changed them. What was made after the backup is lost, as its keys are.
func (a Authorities) Restore(published int64, now time.Time) (Authorities, bool) {
	if published <= a.Sequence {
		return a, false
	}
	a.Sequence = max(published+1, now.Unix())
	return a, true
}

// begin adds a new authority that this operator has the key of.
func (a Authorities) begin(now time.Time) (Authorities, error) {
	next, err := authority.NewAuthority(a.TrustDomain, now)
	if err != nil {
		return a, err
	}
	a.Next, a.NextSince = OwnRoot(next), now
	return a, nil
}

// changedFrom reports whether anything has changed, and sets the sequence if the bundle has.
func (a Authorities) changedFrom(before Authorities, now time.Time) (Authorities, bool, error) {
	if a.Bundle() == before.Bundle() {
		return a, !a.Next.Is(before.Next), nil // a CA that was retired has come back
	}
	// Seconds since 1970 also grow if the Secret is lost and made again.
	a.Sequence = max(before.Sequence+1, now.Unix())
	return a, true, nil
}

// proposalPause is how long a next authority stays until another one replaces it: an issuer that alternates between
// several must not change the bundle with each certificate.
const proposalPause = time.Minute

// Propose makes the authority that an issuer uses now the next one, unless it is known.
func (a Authorities) Propose(root *Root, now time.Time) (Authorities, bool, error) {
	switch {
	case root.Is(a.Issuing), root.Is(a.Next), a.Next != nil && now.Before(a.NextSince.Add(proposalPause)):
		return a, false, nil
	}
	before := a
	// What was retired may come back.
	a.Retired = slices.DeleteFunc(slices.Clone(a.Retired), func(r Retired) bool { return r.Root.Is(root) })
	if len(a.Retired)+2 > maxAuthorities {
		return before, false,
			fmt.Errorf(
				"the issuer uses a new CA (%s) for the %d. time within %s, and others accept %d; let it keep one "+
					"until the oldest is dropped at %s",
				Fingerprint(root.cert), len(a.Retired)+1, retireTime, maxAuthorities,
				formatTime(a.Retired[len(a.Retired)-1].Until))
	}
	a.Next, a.NextSince = root, now
	return a.changedFrom(before, now)
}

// Return makes a new authority of the operator's own the next one if that which issues is that of an issuer which is
// not used any more.
func (a Authorities) Return(now time.Time) (Authorities, bool, error) {
	if a.Issuing.own != nil && a.Next == nil || a.Next != nil && a.Next.own != nil {
		return a, false, nil
	}
	before := a
	if a.Next = nil; a.Issuing.own == nil {
		var err error
		if a, err = a.begin(now); err != nil {
			return before, false, err
		}
	}
	return a.changedFrom(before, now)
}
