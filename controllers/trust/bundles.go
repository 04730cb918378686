package trust

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/authority"
)

// Label marks the ConfigMaps of an operator's namespace that are about trust; its value says what they hold.
const Label = "causalstore.io/trust"

// Values of Label.
const (
	// KindOwn is the bundle of the operator's own region, which the operator writes, for people and tools to copy to
	// other regions.
	KindOwn = "own"
	// KindPeer is the bundle of another region, or the tombstone of one, which people and tools write.
	KindPeer = "peer"
	// KindRecord is what the operator has accepted of those. It outlives them.
	KindRecord = "record"
)

// The keys of these ConfigMaps.
const (
	FieldRegion      = "region"
	FieldTrustDomain = "trustDomain"
	FieldSequence    = "sequence"
	FieldBundle      = "bundle.pem"
	// FieldRevoked of KindPeer, if "true", makes it a tombstone: the trust domain is not trusted any more.
	FieldRevoked = "revoked"
	// Fields of KindOwn about a rotation: fingerprints, and times in RFC 3339.
	FieldIssuing   = "issuing"
	FieldNext      = "next"
	FieldNextSince = "nextSince"
	FieldRetired   = "retired"
	// FieldWaiting says what keeps the next authority from issuing, in lines; FieldIssuer is the issuer of
	// cert-manager, if there is one.
	FieldWaiting = "waiting"
	// FieldRefusedBy says which data centers do not accept the authority that issues, in lines.
	FieldRefusedBy    = "refusedBy"
	FieldIssuer       = "issuer"
	FieldRetiredUntil = "retiredUntil"
)

// AnnotationRotate on KindOwn asks for a step of a rotation: see RotationRequest.
const AnnotationRotate = "causalstore.io/rotate"

// maxPeers bounds the trust domains that are recorded, and maxBundleBytes a bundle.
const (
	maxPeers       = 256
	maxBundleBytes = 16 << 10
)

// Entry is what is known of a trust domain.
type Entry struct {
	Region      string `json:"region,omitempty"`
	TrustDomain string `json:"trustDomain"`
	Sequence    int64  `json:"sequence"`
	Bundle      string `json:"bundle,omitempty"`
	// Revoked is whether it is not trusted any more, and never again by itself.
	Revoked bool `json:"revoked,omitempty"`
	// Since is when this was accepted.
	Since time.Time `json:"since"`
}

// ReadEntry reads a ConfigMap of KindOwn or KindPeer.
func ReadEntry(m *corev1.ConfigMap) (Entry, error) {
	e := Entry{Region: m.Data[FieldRegion], TrustDomain: m.Data[FieldTrustDomain], Bundle: m.Data[FieldBundle],
		Revoked: m.Data[FieldRevoked] == "true"}
	fail := func(format string, args ...any) (Entry, error) {
		return Entry{}, fmt.Errorf("ConfigMap %s: %s", m.Name, fmt.Sprintf(format, args...))
	}
	if r := m.Data[FieldRevoked]; r != "" && r != "true" && r != "false" {
		return fail(`%s: %q; use "true", or leave it out`, FieldRevoked, r)
	}
	if err := authority.CheckTrustDomain(e.TrustDomain); err != nil {
		return fail("%s: %v", FieldTrustDomain, err)
	}
	if e.Revoked {
		e.Bundle = ""
		return e, nil
	}
	if e.Region == "" {
		return fail("%s: it is empty; set it to the region whose operator has the authority", FieldRegion)
	}
	var err error
	if e.Sequence, err = strconv.ParseInt(m.Data[FieldSequence], 10, 64); err != nil || e.Sequence < 0 {
		return fail("%s: %q; copy it from the region's own ConfigMap (label %s=%s)", FieldSequence,
			m.Data[FieldSequence], Label, KindOwn)
	}
	if len(e.Bundle) > maxBundleBytes {
		return fail("%s: it has more than %d bytes", FieldBundle, maxBundleBytes)
	}
	if _, err := ParseBundle(e.Bundle, e.TrustDomain); err != nil {
		return fail("%s: %v", FieldBundle, err)
	}
	return e, nil
}

// Data returns the content of a ConfigMap that ReadEntry reads.
func (e Entry) Data() map[string]string {
	d := map[string]string{FieldRegion: e.Region, FieldTrustDomain: e.TrustDomain,
		FieldSequence: strconv.FormatInt(e.Sequence, 10)}
	if e.Revoked {
		d[FieldRevoked] = "true"
	} else {
		d[FieldBundle] = e.Bundle
	}
	return d
}

// ReadRecord reads what WriteRecord has written. Entries that are damaged are returned as they are, by trust domain.
func ReadRecord(data map[string]string) (all map[string]Entry, damaged map[string]string) {
	all, damaged = map[string]Entry{}, map[string]string{}
	for domain, text := range data {
		var e Entry
		err := json.Unmarshal([]byte(text), &e)
		if err == nil && !e.Revoked {
			_, err = ParseBundle(e.Bundle, domain)
		}
		if err != nil || e.TrustDomain != domain {
			damaged[domain] = text
		} else {
			all[domain] = e
		}
	}
	return all, damaged
}

// WriteRecord returns the content of the ConfigMap of KindRecord. Damaged entries stay, for people to repair.
func WriteRecord(all map[string]Entry, damaged map[string]string) map[string]string {
	data := maps.Clone(damaged)
	if data == nil {
		data = map[string]string{}
	}
	for domain, e := range all {
		b, err := json.Marshal(e)
		if err != nil {
			panic(err) // unreachable: strings, numbers and times can always be encoded
		}
		data[domain] = string(b)
	}
	return data
}

// Accept returns the record after the proposals of ConfigMaps, and why it refuses some of them. The record holds what
// was accepted before, also if its ConfigMap has gone:
//
//   - a sequence never goes back, so that an old copy does not bring back an authority that was dropped;
//   - a tombstone wins and stays;
//   - a region has one trust domain: another one counts once the first is revoked.
func Accept(region, trustDomain string, record map[string]Entry, proposals []Entry, now time.Time) (map[string]Entry,
	[]string) {
	next := maps.Clone(record)
	if next == nil {
		next = map[string]Entry{}
	}
	proposals = slices.Clone(proposals)
	// Tombstones first: they may make place for another trust domain of the same region.
	slices.SortFunc(proposals, func(a, b Entry) int {
		if a.Revoked != b.Revoked {
			if a.Revoked {
				return -1
			}
			return 1
		}
		return strings.Compare(a.TrustDomain, b.TrustDomain)
	})
	var refused []string
	for _, p := range proposals {
		if why := accept(region, trustDomain, next, p, now); why != "" {
			refused = append(refused, fmt.Sprintf("trust domain %s: %s", p.TrustDomain, why))
		}
	}
	return next, refused
}

// accept records a proposal, or returns why not.
func accept(region, trustDomain string, record map[string]Entry, p Entry, now time.Time) string {
	was, known := record[p.TrustDomain]
	switch {
	case p.TrustDomain == trustDomain && p.Revoked:
		return "it is that of this operator, which cannot be revoked here; revoke it in the other regions"
	case p.TrustDomain == trustDomain || known && was.Revoked:
		return ""
	case p.Revoked:
		p.Region, p.Sequence, p.Since = firstOf(was.Region, p.Region), max(was.Sequence, p.Sequence), now
		record[p.TrustDomain] = p
		return ""
	case p.Region == region:
		return fmt.Sprintf("it is said to be of region %s, which is this operator's; correct the region", region)
	case known && was.Region != p.Region:
		return fmt.Sprintf("it is that of region %s, and cannot become that of %s", was.Region, p.Region)
	case known && p.Sequence < was.Sequence:
		return fmt.Sprintf(
			"sequence %d is older than %d, which is known; the newer bundle stays; if that one is wrong, replace it: "+
				"kubectl causal trust --readmit", p.Sequence, was.Sequence)
	case known && p.Sequence == was.Sequence && p.Bundle != was.Bundle:
		return fmt.Sprintf(
			"sequence %d is known with another bundle, which stays; if that one is wrong, replace it: kubectl causal "+
				"trust --readmit", p.Sequence)
	case known && p.Sequence == was.Sequence:
		return ""
	case !known && len(record) >= maxPeers:
		return fmt.Sprintf("%d trust domains are recorded, which is the limit", maxPeers)
	}
	for _, domain := range slices.Sorted(maps.Keys(record)) {
		if e := record[domain]; domain != p.TrustDomain && e.Region == p.Region && !e.Revoked {
			return fmt.Sprintf(
				"region %s is trusted as %s; if it has a new authority, revoke that one first: kubectl causal "+
					"untrust %s", p.Region, domain, p.Region)
		}
	}
	p.Since = now
	record[p.TrustDomain] = p
	return ""
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
