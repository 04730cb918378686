package plan_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

func TestARedisWithAMemoryLimitRefusesWritesBeforeItWouldBeKilled(t *testing.T) {
	in := observed(t, "regions.yaml", "us-east")
	storage := func() corev1.Container {
		return named[*appsv1.StatefulSet](t, planned(t, in),
			"orders-us-east-1-shard-0").Spec.Template.Spec.Containers[1]
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

func memoryLimit(c corev1.Container) string {
	limit := c.Resources.Limits[corev1.ResourceMemory]
	return limit.String()
}

func TestTheFrontHasTheResourcesOfTheStore(t *testing.T) {
	in := observed(t, "regions.yaml", "us-east")
	front := func() corev1.Container {
		all := named[*appsv1.StatefulSet](t, planned(t, in), "orders-us-east-1-cc").Spec.Template.Spec.Containers
		return all[slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == plan.FrontContainer })]
	}
	if limit := memoryLimit(front()); limit != plan.FrontDemand.MemoryLimit {
		t.Errorf("by default its memory limit is %s", limit)
	}
	in.Store.Spec.Clients.Front.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	c := front()
	if limit := memoryLimit(c); limit != "1Gi" {
		t.Errorf("its memory limit is %s, want 1Gi", limit)
	}
	if i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool {
		return e.Name == "GOMEMLIMIT"
	}); i < 0 || c.Env[i].Value != "966367638" {
		t.Errorf("the Go runtime does not stay below 1Gi: %v", c.Env)
	}
}
