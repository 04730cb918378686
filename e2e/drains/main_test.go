//go:build e2e

// Package drains_test maintains the nodes below a store in use, on a real cluster, as the documentation says: it drains
// node after node, and it keeps the volume of a claim that somebody has deleted. It uses the cluster of KUBECONFIG, or
// else starts one on this machine for as long as the tests run. `make e2e-drains` runs it.
package drains_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/e2e/kube"
)

const namespace = "drains"

// cluster has one node in each of six zones.
var cluster kube.Cluster

func TestMain(m *testing.M) { kube.Main(m, cluster.Prepare, cluster.Close) }

// user works in the namespace of the stores.
type user struct{ kube.User }

func in(t *testing.T) user { return user{kube.User{T: t, Namespace: namespace}} }

// installOperator installs two pods of the operator, and creates the namespace of the stores.
func (u user) installOperator() {
	u.Helper()
	u.In(kube.OperatorNamespace).Helm("upgrade", "--install", "causalstore", "charts/causalstore", "--create-namespace",
		"--set", "region=local",
		"--set", kube.ImageValues(kube.ImageStore), "--set", kube.EtcdImageValues(kube.ImageEtcd), "--wait",
		"--timeout", kube.Patience.String())
	if _, err := u.Try("", "get", "namespace", u.Namespace); err != nil {
		u.Kubectl("create", "namespace", u.Namespace)
	}
}

// manifest reads a manifest, and puts in the cluster's image and zones.
func (u user) manifest(file string) string {
	u.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		u.Fatal(err)
	}
	zones := u.Zones()
	if len(zones) < 6 {
		u.Fatalf("the store needs nodes in six zones; the cluster has %q", zones)
	}
	replace := []string{"REDIS", kube.ImageRedis}
	for i, zone := range zones[:6] {
		replace = append(replace, "zone-"+string(rune('a'+i)), zone)
	}
	return strings.NewReplacer(replace...).Replace(string(text))
}
