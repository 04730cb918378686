//go:build e2e

// Package store_test uses CausalStore on a real cluster as its users do, with Helm, kubectl and a stock Redis client.
// It uses the cluster of KUBECONFIG, or else starts one on this machine for as long as the tests run. `make e2e` runs
// it.
package store_test

import (
	"testing"

	"github.com/causalstore/causalstore/e2e/kube"
)

// cluster is the one of all tests.
var cluster kube.Cluster

// TestMain runs the tests on a test bed of their own if KUBECONFIG names no cluster.
func TestMain(m *testing.M) { kube.Main(m, cluster.Prepare, cluster.Close) }
