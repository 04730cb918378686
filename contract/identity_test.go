package contract

import (
	"net/url"
	"testing"
)

func TestIdentitiesAreReadInTheirOnlyForm(t *testing.T) {
	id := Identity{TrustDomain: "eu.0b1c", StoreID: "7d1e", DataCenter: "eu-west-1", Role: RoleMiddleman, Member: "2"}
	if got, err := ParseIdentity(id.URI()); err != nil || got != id {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{
		"", "https://eu/7d1e/dc/a/cache/0", "spiffe:///7d1e/dc/a/cache/0", "spiffe://eu/7d1e/dc/a/cache",
		"spiffe://eu/7d1e/dc/a/cache/0/1",
		"spiffe://eu/7d1e/dc//cache/0", "spiffe://eu/7d1e/DC/a/cache/0", "spiffe://eu/7d1e/dc/a/root/0",
		"spiffe://eu/7d1e/dc/a/cache/00",
		"spiffe://eu/7d1e/dc/a/cache/-1", "spiffe://eu/7d1e/dc/a/cache/0?x", "spiffe://eu/7d1e/dc/a/cache/0#x",
		"spiffe://u@eu/7d1e/dc/a/cache/0",
		"spiffe://eu/7d1e/dc/a/cache/%30", "spiffe://eu/7d1e/dc/a/sidecar/", "spiffe:eu/7d1e/dc/a/cache/0",
	} {
		u, err := url.Parse(bad)
		if err != nil {
			t.Fatal(err)
		}
		if id, err := ParseIdentity(u); err == nil {
			t.Errorf("%s is read as %+v", bad, id)
		}
	}
}
