package plan_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestARedisWithAMemoryLimitRefusesWritesBeforeItWouldBeKilled(t *testing.T) {
	in := observed(t, "regions.yaml", "us-east")
	storage := func() corev1.Container {
		return named[*appsv1.StatefulSet](t, planned(t, in), "orders-us-east-1-shard-0").Spec.Template.Spec.Containers[1]
	}
	in.Store.Spec.Storage.Resources = corev1.ResourceRequirements{}
	if args := storage().Args; slices.Contains(args, "--maxmemory") {
		t.Errorf("without a limit there is nothing to derive maxmemory from: %v", args)
	}
	in.Store.Spec.Storage.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	args := storage().Args
	if i := slices.Index(args, "--maxmemory"); i < 0 || args[i+1] != "805306368" {
		t.Errorf("with a limit of 1Gi: %v, want three quarters of it", args)
	}
	if i := slices.Index(args, "--maxmemory-policy"); i < 0 || args[i+1] != "noeviction" {
		t.Errorf("it evicts keys: %v", args)
	}
}
