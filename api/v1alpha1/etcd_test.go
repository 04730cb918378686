package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// TestCoordinatorsWithSeveralMembersKeepTheirEtcd: the API server does not accept several members yet, so the suite of
// admission cannot.
func TestCoordinatorsWithSeveralMembersKeepTheirEtcd(t *testing.T) {
	external := v1alpha1.Etcd{Endpoints: []string{"https://etcd.example.com:2379"}, SecretName: "etcd"}
	for _, c := range []struct {
		members, before int32
		is, was         v1alpha1.Etcd
		refused         string
	}{
		{3, 3, v1alpha1.Etcd{Replicas: 1}, v1alpha1.Etcd{},
			"etcd.replicas: cannot be changed while coordinators have several members; set it back to 3"},
		{3, 3, v1alpha1.Etcd{Replicas: 3}, v1alpha1.Etcd{}, ""}, // recorded before there was any
		{3, 1, v1alpha1.Etcd{Replicas: 1}, v1alpha1.Etcd{}, ""},
		{3, 3, external, v1alpha1.Etcd{},
			"etcd.endpoints: coordinators with several members cannot go to another etcd"},
		{3, 3, v1alpha1.Etcd{}, external,
			"etcd.endpoints: coordinators with several members cannot go to another etcd"},
		{3, 1, external, v1alpha1.Etcd{}, ""},
		{3, 3, v1alpha1.Etcd{Zones: []string{"a", "b", "c"}, Image: "etcd:v3.6.9"}, v1alpha1.Etcd{}, ""},
	} {
		spec := func(members int32, e v1alpha1.Etcd) *v1alpha1.CausalStoreSpec {
			return &v1alpha1.CausalStoreSpec{
				DataCenters: []v1alpha1.DataCenter{{Name: "here", Region: "r",
					Coordinators: v1alpha1.Coordinators{Members: members}, Etcd: e}},
			}
		}
		got := strings.Join(spec(c.members, c.is).ValidateChange(spec(c.before, c.was)), "; ")
		if !strings.Contains(got, c.refused) || (got == "") != (c.refused == "") {
			t.Errorf("%d members (before %d), from %+v to %+v: %q, want %q", c.members, c.before, c.was, c.is,
				got, c.refused)
		}
	}
}
