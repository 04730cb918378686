package status

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/trust"
)

// Certificates are what is known of the certificates of a store's parts.
type Certificates struct {
	// Known is whether any was looked at, Missing whether one does not exist.
	Known, Missing bool
	// Expire is when the first one expires.
	Expire time.Time
	// Failed is why some could not be renewed, and Pending why some have not been yet.
	Failed, Pending error
}

// Add adds the certificates of one Secret: when the first of them expires, which is zero if one is missing, and why
// they were not renewed.
func (c *Certificates) Add(expires time.Time, failed error) {
	c.Known, c.Missing = true, c.Missing || expires.IsZero()
	if !expires.IsZero() && (c.Expire.IsZero() || expires.Before(c.Expire)) {
		c.Expire = expires
	}
	switch {
	case trust.IsPending(failed) && c.Pending == nil:
		c.Pending = failed
	case !trust.IsPending(failed) && c.Failed == nil:
		c.Failed = failed
	}
}

// peersTrusted holds if the authorities of all regions of the store are known here, and none is heard to refuse that of
// this one.
func peersTrusted(v *view) verdict {
	var own string
	var unknownRegions, revoked []string
	dcs := map[string][]string{}
	var order []string
	for _, dc := range v.Store.Spec.DataCenters {
		if len(dcs[dc.Region]) == 0 {
			order = append(order, dc.Region)
		}
		dcs[dc.Region] = append(dcs[dc.Region], dc.Name)
	}
	for _, region := range order {
		if v.Authority == nil {
			break
		}
		_, _, err := v.Authority.Of(region)
		text := fmt.Sprintf("%s (%s)", region, strings.Join(dcs[region], ", "))
		switch {
		case err == nil:
		case region == v.Region:
			own = err.Error()
		case errors.Is(err, trust.ErrRevokedRegion):
			revoked = append(revoked, text)
		default:
			unknownRegions = append(unknownRegions, text)
		}
	}
	switch {
	case v.Authority == nil:
		return unknown(v1alpha1.ReasonCertificatesUnknown, "the operator has not read the authorities yet")
	case own != "":
		return no(v1alpha1.ReasonRegionsNotTrusted, "%s", own)
	case len(unknownRegions) > 0:
		return no(v1alpha1.ReasonRegionsNotTrusted,
			"regions (and data centers) whose authority is not known here, so that their parts are refused: %s; with "+
				"a context for each cluster, run: kubectl causal trust --context THIS --context OTHER%s%s",
			strings.Join(unknownRegions, ", "), also("revoked", revoked), also("not accepted", v.Authority.Refused))
	case len(revoked) > 0:
		return no(v1alpha1.ReasonRegionsRevoked,
			"regions (and data centers) whose authority is revoked, so that their parts are refused: %s; to trust "+
				"one again, run: kubectl causal trust --readmit%s",
			strings.Join(revoked, ", "), also("not accepted", v.Authority.Refused))
	case len(v.AuthorityRefusedBy) > 0:
		return no(v1alpha1.ReasonAuthorityRefused,
			"the authority that issues certificates in this region (SHA-256 %s) is not trusted by %s; links that are "+
				"up end within 7 days at most, and none is made again; with a context for each cluster, run: kubectl "+
				"causal trust --context THIS --context OTHER",
			trust.Fingerprint(v.Authority.Issuing.Certificate())[:16], limited(v.AuthorityRefusedBy))
	case len(order) == 1 && slices.Equal(order, []string{v.Region}):
		return yes(v1alpha1.ReasonOneRegion, "all data centers are in this region, of trust domain %s",
			v.Authority.TrustDomain)
	}
	return yes(v1alpha1.ReasonRegionsTrusted,
		"the authorities of all %d regions are known; this one is of trust domain %s%s", len(order),
		v.Authority.TrustDomain,
		also("not accepted", v.Authority.Refused))
}

func also(what string, all []string) string {
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("; %s: %s", what, strings.Join(all, "; "))
}

// certificatesCurrent holds if the certificates of this region's parts are renewed in time.
func certificatesCurrent(v *view) verdict {
	c := v.Certificates
	left := c.Expire.Sub(v.Now).Round(time.Hour)
	switch {
	case v.local == 0:
		return yes(v1alpha1.ReasonNothingHere, "no data center is in this region")
	case v.Authority != nil && v.Authority.Problem != "":
		return no(v1alpha1.ReasonCertificatesNotRenewed, "%s%s", v.Authority.Problem, c.remaining(v.Now))
	case c.Failed != nil:
		return no(v1alpha1.ReasonCertificatesNotRenewed, "%s%s", c.Failed, c.remaining(v.Now))
	case c.Known && !c.Missing && left < trust.LateAfter:
		return no(v1alpha1.ReasonCertificatesLate, "a certificate expires in %s and should have been renewed: %s", left,
			c.pendingOr("see the operator's log"))
	case v.Authority != nil && v.Authority.Issuing.ExpiresSoon(v.Now):
		return no(v1alpha1.ReasonAuthorityExpiring,
			"the authority of this region expires at %s; replace it: kubectl causal rotate-ca%s",
			v.Authority.Issuing.Certificate().NotAfter.UTC().Format(time.RFC3339), v.rotation())
	case !c.Known || c.Missing:
		return unknown(v1alpha1.ReasonCertificatesUnknown, "the certificates have not all been issued; %s",
			c.pendingOr("see TopologyValid and Paused"))
	case v.Authority != nil && v.Authority.Next != nil:
		return yes(v1alpha1.ReasonAuthorityRotating, "certificates are valid for 7 days and renewed every day%s",
			v.rotation())
	case c.Pending != nil:
		return yes(v1alpha1.ReasonCertificatesRenewed, "certificates are valid for 7 days and renewed every day; %s",
			c.Pending)
	}
	return yes(v1alpha1.ReasonCertificatesRenewed, "certificates are valid for 7 days and renewed every day")
}

// rotation says what a new authority waits for.
func (v *view) rotation() string {
	switch {
	case v.Authority.Next == nil:
		return ""
	case len(v.AuthorityWaits) == 0:
		return "; the new authority of this region issues as soon as all its stores accept it"
	}
	return fmt.Sprintf("; the new authority of this region (SHA-256 %s) issues when all data centers accept it: %s",
		trust.Fingerprint(v.Authority.Next.Certificate())[:16],
		limited(v.AuthorityWaits))
}

// maxNamed bounds what a message names.
const maxNamed = 8

// limited joins texts, as far as there are not too many.
func limited(all []string) string {
	more := ""
	if len(all) > maxNamed {
		more = fmt.Sprintf("; and %d more", len(all)-maxNamed)
	}
	return strings.Join(all[:min(len(all), maxNamed)], "; ") + more
}

func (c Certificates) pendingOr(text string) string {
	if c.Pending != nil {
		return c.Pending.Error()
	}
	return text
}

func (c Certificates) remaining(now time.Time) string {
	if c.Expire.IsZero() {
		return ""
	}
	return fmt.Sprintf("; the first certificate expires in %s", c.Expire.Sub(now).Round(time.Hour))
}
