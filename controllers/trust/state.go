package trust

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"
)

// State is what the operator knows about trust.
type State struct {
	Region string
	// TrustDomain, Bundle and Issuing are the authority of this region. If it cannot be used, Issuing is nil and
	// Problem says why.
	TrustDomain string
	Bundle      string
	Issuing     *Root
	Problem     string
	// IssuingSince is when that was, if there was another one before. Retired are those.
	IssuingSince time.Time
	Retired      []Retired
	// Next issues once nothing is left in Waiting; nil without a rotation.
	Next    *Root
	Waiting []string
	// Peers are the trust domains of other regions.
	Peers map[string]Entry
	// Refused says which ConfigMaps about other regions are not accepted, and why.
	Refused []string

	signer signer
}

// StateOf returns the state of a region whose operator has the key of its authority, and knows nothing else.
func StateOf(issuing *Root) *State {
	return &State{TrustDomain: issuing.own.TrustDomain(), Bundle: string(issuing.CertificatePEM()), Issuing: issuing,
		signer: ownSigner{issuing.own}}
}

func equal(a, b *State) bool {
	return a.TrustDomain == b.TrustDomain && a.Bundle == b.Bundle && a.Problem == b.Problem &&
		a.Issuing.Is(b.Issuing) && a.Next.Is(b.Next) &&
		slices.Equal(a.Waiting, b.Waiting) && slices.Equal(a.Refused, b.Refused) && reflect.DeepEqual(a.Peers, b.Peers)
}

// Of returns the trust domain of a region and its bundle, or why it has none.
func (s *State) Of(region string) (trustDomain, bundle string, err error) {
	if region == s.Region {
		if s.Bundle == "" {
			return "", "", errors.New(s.Problem)
		}
		return s.TrustDomain, s.Bundle, nil
	}
	err = ErrUnknownRegion
	for _, domain := range slices.Sorted(maps.Keys(s.Peers)) {
		switch e := s.Peers[domain]; {
		case e.Region != region:
		case e.Revoked:
			err = ErrRevokedRegion
		default:
			return domain, e.Bundle, nil
		}
	}
	return "", "", err
}

// Errors of State.Of.
var (
	ErrUnknownRegion = errors.New("its bundle is not known")
	ErrRevokedRegion = errors.New("its trust domain is revoked")
)
