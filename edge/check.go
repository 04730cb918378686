package edge

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
)

// label is the form of what becomes a label of server names: of data centers and store ids.
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// partLabel is the first label of the name of a part, or of a member of its group.
var partLabel = regexp.MustCompile(`^[a-z]+-[0-9]+(-[0-9]+)?$`)

// check returns what is wrong with an input.
func (in Input) check() error {
	var errs []error
	if !label.MatchString(in.StoreID) {
		errs = append(errs, fmt.Errorf("the store id %q is not a DNS label in lower case", in.StoreID))
	}
	if !label.MatchString(in.DataCenter) {
		errs = append(errs, fmt.Errorf("the data center %q is not a DNS label in lower case", in.DataCenter))
	}
	bundles := map[string]string{}
	errs = append(errs, checkBundle(bundles, in.TrustDomain, in.Bundle))
	seen := map[string]bool{in.DataCenter: true}
	for _, p := range in.Peers {
		if !label.MatchString(p.DataCenter) || seen[p.DataCenter] {
			errs = append(errs,
				fmt.Errorf("the data center %q of a peer is given twice, or is not a DNS label in lower case",
					p.DataCenter))
		}
		seen[p.DataCenter] = true
		if err := errors.Join(checkAddress(p.Address), checkBundle(bundles, p.TrustDomain, p.Bundle)); err != nil {
			errs = append(errs, fmt.Errorf("peer %s: %w", p.DataCenter, err))
		}
	}
	for _, p := range in.Parts {
		first, rest, _ := strings.Cut(p.Name, ".")
		if !partLabel.MatchString(first) || rest != in.DataCenter+"."+in.StoreID || seen[p.Name] {
			errs = append(errs,
				fmt.Errorf(
					"the name %q of a part is given twice, or is not <role>-<index>.%s.%s, or for a member "+
						"<role>-<index>-<member>", p.Name, in.DataCenter, in.StoreID))
		}
		seen[p.Name] = true
		if err := checkAddress(p.Address); err != nil {
			errs = append(errs, fmt.Errorf("part %s: %w", p.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("configure the edge of %s: %w", in.DataCenter, err)
	}
	return nil
}

func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if n, badPort := strconv.ParseUint(port, 10, 16); err != nil || badPort != nil || n == 0 || host == "" {
		return fmt.Errorf("the address %q is not host:port", address)
	}
	return nil
}

// checkBundle returns what is wrong with the bundle of a trust domain: Envoy would refuse it, or it has another one
// elsewhere.
func checkBundle(known map[string]string, trustDomain, bundle string) error {
	if err := authority.CheckTrustDomain(trustDomain); err != nil {
		return err
	}
	if other, ok := known[trustDomain]; ok && other != bundle {
		return fmt.Errorf("trust domain %s is given with two bundles", trustDomain)
	}
	known[trustDomain] = bundle
	certificates := 0
	for block, rest := pem.Decode([]byte(bundle)); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			return fmt.Errorf("the bundle of trust domain %s holds something else than certificates", trustDomain)
		}
		if err := contract.CheckKey(c); err != nil {
			return fmt.Errorf("the bundle of trust domain %s: %w", trustDomain, err)
		}
		certificates++
	}
	if certificates == 0 {
		return fmt.Errorf("the bundle of trust domain %s holds no certificate in PEM", trustDomain)
	}
	return nil
}
