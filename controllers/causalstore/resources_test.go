package causalstore_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// TestSmallStoresAskForLittle has the figures of docs/kubernetes.md.
func TestSmallStoresAskForLittle(t *testing.T) {
	for _, c := range []struct {
		file        string
		pods        int
		cpu, memory string
	}{{"one-data-center.yaml", 4, "400m", "704Mi"}, {"single-zone.yaml", 6, "600m", "896Mi"}} {
		t.Run(c.file, func(t *testing.T) {
			k := newCluster(t)
			k.operator("local", "causalstore:v1")
			k.sample(c.file, nil)
			k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
			pods := k.podsOf("try")
			var cpu, memory resource.Quantity
			for _, p := range pods {
				for _, part := range p.Spec.Containers {
					checkLimits(t, p.Name, &part)
					cpu.Add(part.Resources.Requests[corev1.ResourceCPU])
					memory.Add(part.Resources.Requests[corev1.ResourceMemory])
				}
			}
			if len(pods) != c.pods || cpu.Cmp(resource.MustParse(c.cpu)) != 0 ||
				memory.Cmp(resource.MustParse(c.memory)) != 0 {
				t.Errorf("%d pods ask for %s CPU and %s of memory; want %d, %s and %s", len(pods), cpu.String(),
					memory.String(), c.pods, c.cpu, c.memory)
			}
		})
	}
}

// checkLimits checks that a container has a memory limit that its runtime knows, and none of CPU.
func checkLimits(t *testing.T, pod string, c *corev1.Container) {
	t.Helper()
	limit, ok := c.Resources.Limits[corev1.ResourceMemory]
	if _, throttled := c.Resources.Limits[corev1.ResourceCPU]; !ok || throttled {
		t.Errorf("container %s of %s has the limits %v", c.Name, pod, c.Resources.Limits)
	}
	for _, e := range c.Env {
		if e.Name == "GOMEMLIMIT" && e.Value == fmt.Sprint(limit.Value()/10*9) {
			return
		}
	}
	t.Errorf("container %s of %s with the memory limit %s has the variables %v", c.Name, pod, limit.String(), c.Env)
}
