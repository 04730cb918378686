package contract

import "testing"

// TestNamesOfPartsKeepTheirForm: the regions of a store may run different versions, and dial each other's parts by
// these names.
func TestNamesOfPartsKeepTheirForm(t *testing.T) {
	const store = "1c8f6a52-93f4-4f7e-8c0a-5b1f6d2e7a90"
	for want, got := range map[string]string{
		"middleman-0.eu-west-1." + store:           PartName(RoleMiddleman, 0, "eu-west-1", store),
		"coordinator-12.us-east-1." + store:        PartName(RoleCoordinator, 12, "us-east-1", store),
		"cache-1.eu-west-1." + store + ":7400":     PartAddress(RoleCache, 1, "eu-west-1", store),
		"coordinator-12-2.us-east-1." + store:      MemberName(RoleCoordinator, 12, 2, "us-east-1", store),
		"coordinator-3.eu-west-1." + store:         MemberName(RoleCoordinator, 3, 1, "eu-west-1", store),
		"coordinator-0-3.a." + store + ":7400":     MemberAddress(RoleCoordinator, 0, 3, "a", store),
		"middleman-4-2.a." + store + ":7400":       MemberAddress(RoleMiddleman, 4, 2, "a", store),
		"middleman-4.a." + store:                   MemberName(RoleMiddleman, 4, 1, "a", store),
		"middleman-0.us-west-2." + store + ":7400": PartAddress(RoleMiddleman, 0, "us-west-2", store),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
