//go:build e2e

package store_test

import (
	"fmt"
	"os"
	"strings"
)

// Ports of the store's pods.
const (
	portParts  = "7400"
	portHealth = "7480"
	portRedis  = "6379"
)

// checkNetwork tries connections to every pod of the store: from an app and an app with a sidecar in its namespace, and from a pod of
// a namespace that the store does not admit. It needs a cluster that enforces NetworkPolicies, as the test bed does.
func (j *journey) checkNetwork(u user) {
	if !bedIsOurs && os.Getenv(envLoad) == "" {
		u.Skip("the cluster of KUBECONFIG may not enforce NetworkPolicies")
	}
	elsewhere := user{u.T, "elsewhere"}
	elsewhere.kubectl("create", "namespace", elsewhere.namespace)
	elsewhere.startApp("stranger", "")
	pods := strings.Fields(u.kubectl("get", "pods", "-l", "app.kubernetes.io/instance=rings", "-o",
		`jsonpath={range .items[*]}{.metadata.labels.app\.kubernetes\.io/component}={.status.podIP} {end}`))
	if len(pods) != 12 {
		u.Fatalf("the store's pods are %q, want 12", pods)
	}
	for _, p := range pods {
		component, ip, _ := strings.Cut(p, "=")
		elsewhere.awaitConnection(false, "stranger", ip, portParts)
		for _, client := range []string{"app", "injected"} {
			u.awaitConnection(true, client, ip, portParts)
		}
		elsewhere.awaitConnection(true, "stranger", ip, portHealth)
		if component == "coordinator" {
			u.awaitConnection(true, "app", ip, portRedis)
			u.awaitConnection(false, "injected", ip, portRedis) // it is to use its sidecar
			elsewhere.awaitConnection(false, "stranger", ip, portRedis)
		}
	}
	elsewhere.kubectl("delete", "namespace", elsewhere.namespace)
}

// awaitConnection waits until a connection from an app's pod is answered, or until it is not.
func (u user) awaitConnection(wanted bool, app, ip, port string) {
	u.Helper()
	u.await(fmt.Sprintf("a connection from %s to %s:%s to be answered: %t", app, ip, port, wanted), func() string {
		out := u.kubectl("exec", app, "-c", "main", "--", "sh", "-c", fmt.Sprintf("nc -w 2 %s %s </dev/null >/dev/null 2>&1 && echo answered || echo not", ip, port))
		if (out == "answered") != wanted {
			return out
		}
		return ""
	})
}
