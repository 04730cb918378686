package causalstore_test

import (
	"strings"
	"testing"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

func TestWhatKeepsPodsFromExistingIsInReadyAndStatusByName(t *testing.T) {
	k := newCluster(t)
	const quota = `create Pod try-here-shard-1-0 in StatefulSet try-here-shard-1 failed error: pods "try-here-shard-1-0" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2`
	k.workloads.change(func() {
		k.workloads.refused["try-here-shard-1"] = quota
		k.workloads.pending["try-here-cc-0"] = true
	})
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) {
		s.Spec.DataCenters[0].Coordinators.Volume.StorageClassName = ptr("no-such-class")
	})
	texts := []string{"try-here-shard-1-0: FailedCreate: " + quota,
		"try-here-cc-0: VolumeNotBound: claim data-try-here-cc-0 has no volume: StorageClass no-such-class " +
			"does not exist"}
	k.await("both causes", func() (bool, string) {
		s := k.store("try")
		found := ""
		for _, c := range s.Status.Conditions {
			if c.Type == v1alpha1.ConditionReady {
				found += c.Reason + ": " + c.Message
			}
		}
		listed := ""
		for _, p := range s.Status.Problems {
			listed += p.Pod + ": " + p.Reason + ": " + p.Message + "\n"
		}
		for _, text := range texts {
			if !strings.Contains(found, text) || !strings.Contains(listed, text+"\n") {
				return false, found + "\n" + listed
			}
		}
		return true, ""
	})
	k.workloads.change(func() {
		delete(k.workloads.refused, "try-here-shard-1")
		delete(k.workloads.pending, "try-here-cc-0")
	})
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
}

func TestMembersWithoutAnImageForTheirEtcdAreRefused(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Coordinators.Members = 2 })
	c := k.awaitCondition("try", v1alpha1.ConditionReady, no, v1alpha1.ReasonSpecRefused)
	if !strings.Contains(c.Message, "data center here: several members need an etcd") {
		t.Error(c.Message)
	}
	if n := len(k.podsOf("try")); n != 0 {
		t.Errorf("%d pods were made", n)
	}
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Coordinators.Members = 1 })
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
}
