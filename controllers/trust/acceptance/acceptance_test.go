package acceptance

import (
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
)

func newRoot(t *testing.T) *x509.Certificate {
	t.Helper()
	a, err := authority.NewAuthority("eu.example.com", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a.Certificate()
}

func TestAnAuthorityWaitsForEveryDataCenter(t *testing.T) {
	root := newRoot(t)
	digest := contract.FormatRoot(contract.RootDigest(root))
	regions := map[string]string{"paris": "eu", "virginia": "us", "oregon": "us"}
	says := func(dc string, links int, roots ...string) contract.Acceptance {
		return contract.Acceptance{DataCenter: dc, Links: links, Roots: roots}
	}
	of := func(all ...contract.Acceptance) contract.Readiness {
		return contract.Readiness{DataCenter: "paris", Acceptance: all}
	}
	here, virginia, oregon := says("paris", 2, "other", digest), says("virginia", 3, digest), says("oregon", 1, digest)
	for name, c := range map[string]struct {
		reports map[string]contract.Readiness
		unasked map[string]string
		want    []string
	}{
		"all accept": {map[string]contract.Readiness{"a": of(here, virginia, oregon)}, nil, nil},
		"each part hears of some": {map[string]contract.Readiness{"a": of(here, virginia, says("oregon", 0)),
			"b": of(here, says("virginia", 0), oregon)}, nil, nil},
		"one part hears of one that does not": {map[string]contract.Readiness{"a": of(here, virginia, oregon),
			"b": of(here, says("virginia", 1, "other"), oregon), "c": of(here, virginia, oregon)}, nil,
			[]string{"data center virginia of region us does not accept it yet"}},
		"it does not say": {map[string]contract.Readiness{"a": of(here, virginia, says("oregon", 1))}, nil,
			[]string{"data center oregon of region us does not accept it yet"}},
		"a region is away": {
			map[string]contract.Readiness{"a": of(here, says("virginia", 0, digest), says("oregon", 0))}, nil,
			[]string{"data center oregon of region us has no link with the parts here",
				"data center virginia of region us has no link with the parts here"}},
		"the own data center has not read it": {
			map[string]contract.Readiness{"a": of(says("paris", 0, "other"), virginia, oregon)}, nil,
			[]string{"data center paris of region eu does not accept it yet"},
		},
		"a part of the own region is alone": {
			map[string]contract.Readiness{"a": of(says("paris", 0, digest), virginia, oregon)}, nil, nil,
		},
		"a part is of an earlier version": {map[string]contract.Readiness{"a": of(here, virginia, oregon), "b": of()},
			nil, []string{"part b does not say what it accepts"}},
		"a part does not answer": {map[string]contract.Readiness{"a": of(here, virginia, oregon)},
			map[string]string{"b": "timeout"}, []string{"part b cannot be asked: timeout"}},
		"no part runs": {nil, nil, []string{"data center oregon of region us has no link with the parts here",
			"data center paris of region eu has no link with the parts here",
			"data center virginia of region us has no link with the parts here"}},
	} {
		if diff := cmp.Diff(c.want, Waits(root, regions, c.reports, c.unasked)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAnAuthorityIsRefusedByDataCentersOfOtherRegionsThatDoNotAcceptIt(t *testing.T) {
	root := newRoot(t)
	digest := contract.FormatRoot(contract.RootDigest(root))
	regions := map[string]string{"paris": "eu", "rome": "eu", "virginia": "us", "oregon": "us"}
	for name, c := range map[string]struct {
		virginia []contract.Acceptance // as parts hear from it
		want     []string
	}{
		"it accepts it": {[]contract.Acceptance{{Links: 1, Roots: []string{"other", digest}}}, nil},
		"it accepts another one": {[]contract.Acceptance{{Links: 1, Roots: []string{"other"}}},
			[]string{"data center virginia of region us"}},
		"one of its parts does not": {[]contract.Acceptance{{Links: 1, Roots: []string{digest}},
			{Links: 1, Roots: []string{"other"}}}, []string{"data center virginia of region us"}},
		"it did not when it went away": {[]contract.Acceptance{{Roots: []string{"other"}}},
			[]string{"data center virginia of region us"}},
		"it did when it went away":         {[]contract.Acceptance{{Roots: []string{digest}}}, nil},
		"nothing was heard from it so far": {[]contract.Acceptance{{}}, nil},
	} {
		reports := map[string]contract.Readiness{}
		for i, a := range c.virginia {
			a.DataCenter = "virginia"
			// it will read the new one
			own := contract.Acceptance{DataCenter: "rome", Links: 1, Roots: []string{"other"}}
			reports[fmt.Sprint(i)] = contract.Readiness{DataCenter: "paris", Acceptance: []contract.Acceptance{a, own}}
		}
		if diff := cmp.Diff(c.want, RefusedBy(root, "eu", regions, reports)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
