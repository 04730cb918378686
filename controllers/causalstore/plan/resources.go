package plan

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// Demand is what a container asks for unless the store says otherwise. No container has a limit of CPU: one that is
// throttled misses the time-outs of others.
type Demand struct {
	CPU, Memory string
	// MemoryLimit bounds the container, and nine tenths of it the Go runtime. It is empty for no limit.
	MemoryLimit string
}

// Demands of the containers, by measurements in docs/benchmarks.md; docs/kubernetes.md says how to size them and has
// the same figures. Requests are a multiple of what idle parts take (coordinators up to 17 thousandths of a core and 17
// MiB), and enough for some thousand operations a second. Limits are what the bounds of each part can add up to, such
// as a coordinator's 256 MiB of incomplete writes.
var (
	CoordinatorDemand = Demand{CPU: "100m", Memory: "128Mi", MemoryLimit: "1Gi"}
	FrontDemand       = Demand{CPU: "50m", Memory: "64Mi", MemoryLimit: "512Mi"}
	MiddlemanDemand   = Demand{CPU: "100m", Memory: "128Mi", MemoryLimit: "512Mi"}
	// MemberDemand is that of a middleman that is a member of a group: up to 256 MiB of the log are in memory too.
	MemberDemand = Demand{CPU: "100m", Memory: "192Mi", MemoryLimit: "1Gi"}
	// RedisDemand has no limit, because the data may be of any size.
	RedisDemand   = Demand{CPU: "100m", Memory: "128Mi"}
	SidecarDemand = Demand{CPU: "10m", Memory: "32Mi", MemoryLimit: "256Mi"}
)

// CacheDemand returns the demand of a cache. It may fill its memory at any time, so it asks for all of it.
func CacheDemand(memory string) Demand {
	return Demand{CPU: "50m", Memory: memory, MemoryLimit: memory}
}

// Resources returns the demand as resources of a container.
func (d Demand) Resources() corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(d.CPU), corev1.ResourceMemory: resource.MustParse(d.Memory)}}
	if d.MemoryLimit != "" {
		r.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(d.MemoryLimit)}
	}
	return r
}

// resourcesOr returns the given resources, or those of the demand.
func resourcesOr(given corev1.ResourceRequirements, d Demand) corev1.ResourceRequirements {
	if len(given.Requests) > 0 || len(given.Limits) > 0 {
		return given
	}
	return d.Resources()
}

// SidecarResources returns the resources of the sidecars of a store.
func SidecarResources(s *v1alpha1.CausalStoreSpec) corev1.ResourceRequirements {
	return resourcesOr(s.Clients.SidecarResources, SidecarDemand)
}

// GoMemoryLimit makes the Go runtime stay below the memory limit of the container.
func GoMemoryLimit(r corev1.ResourceRequirements) []corev1.EnvVar {
	limit, ok := r.Limits[corev1.ResourceMemory]
	if !ok {
		return nil
	}
	return []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: strconv.FormatInt(limit.Value()/10*9, 10)}}
}
