package command

import "testing"

func TestTheTrafficDistributionFollowsTheVersionOfKubernetes(t *testing.T) {
	for version, want := range map[string]string{
		"v1.31.0": "PreferClose", "v1.34.9": "PreferClose", "v1.35.0": "PreferSameZone",
		"v1.36.3-eks-1234567": "PreferSameZone",
		"v2.0.0-alpha.1":      "PreferSameZone", "none of them": "PreferClose",
	} {
		if got := trafficDistributionOf(version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}
