//go:build e2e

package store_test

import (
	"os"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/e2e/kube"
)

// user works with a store in one namespace.
type user struct{ kube.User }

// in returns a user of a namespace.
func in(t *testing.T, namespace string) user {
	return user{kube.User{T: t, Namespace: namespace}}
}

// awaitReady waits until the store is ready for its current spec.
func (u user) awaitReady() {
	u.Helper()
	u.AwaitReady("rings")
}

// sample returns the sample manifest of three rings, with the cluster's images and zones. It admits helm test, which
// writes to it.
func (u user) sample() string {
	u.Helper()
	text, err := os.ReadFile(kube.Root + "/config/samples/three-rings.yaml")
	if err != nil {
		u.Fatal(err)
	}
	zones := u.Zones()
	if len(zones) < 6 {
		u.Fatalf("the sample needs nodes in six zones; the cluster has %q", zones)
	}
	replace := []string{"redis:7.4", kube.ImageRedis, "\nspec:\n",
		"\nspec:\n  access: {namespaces: {matchLabels: {kubernetes.io/metadata.name: " +
			kube.OperatorNamespace + "}}}\n"}
	for i, zone := range zones[:6] {
		replace = append(replace, "[zone-"+string(rune('a'+i))+"]", "["+zone+"]")
	}
	return strings.NewReplacer(replace...).Replace(string(text))
}
