package command

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// trafficDistribution returns the value of spec.trafficDistribution that prefers endpoints in the client's zone, for
// the cluster's version.
func trafficDistribution(config *rest.Config) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", err
	}
	server, err := client.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("read the version of the API server: %w", err)
	}
	return trafficDistributionOf(server.GitVersion), nil
}

// trafficDistributionOf returns PreferSameZone for Kubernetes 1.35 and newer, which deprecate PreferClose, and
// PreferClose for older ones.
func trafficDistributionOf(kubernetes string) string {
	parsed, err := version.ParseGeneric(kubernetes)
	if err == nil && parsed.AtLeast(version.MajorMinor(1, 35)) {
		return corev1.ServiceTrafficDistributionPreferSameZone
	}
	return corev1.ServiceTrafficDistributionPreferClose
}
