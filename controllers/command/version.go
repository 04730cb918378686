package command

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// sameZone asks the cluster for its version, and returns what Services are to be told in that one.
func sameZone(config *rest.Config) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", err
	}
	is, err := client.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("ask the API server for its version: %w", err)
	}
	return sameZoneIn(is.GitVersion), nil
}

// sameZoneIn: all versions from 1.35 on know the newer word, and call the older one deprecated.
func sameZoneIn(kubernetes string) string {
	is, err := version.ParseGeneric(kubernetes)
	if err == nil && is.AtLeast(version.MajorMinor(1, 35)) {
		return corev1.ServiceTrafficDistributionPreferSameZone
	}
	return corev1.ServiceTrafficDistributionPreferClose
}
