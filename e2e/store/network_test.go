//go:build e2e

package store_test

import (
	"os"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/e2e/kube"
)

// Ports of the store's pods.
const (
	portParts  = ":7400"
	portHealth = ":7480"
	portRedis  = ":6379" // of coordinators' pods, which have a front
)

// checkNetwork tries connections to every pod of the store: from an app and an app with a sidecar in its namespace, and
// from a pod of a namespace that the store does not admit. It needs a cluster that enforces NetworkPolicies, as the
// test bed does.
func (j *journey) checkNetwork(u user) {
	if !cluster.IsOurs() && os.Getenv(kube.EnvLoad) == "" {
		u.Skip("the cluster of KUBECONFIG may not enforce NetworkPolicies")
	}
	elsewhere := in(u.T, "elsewhere")
	elsewhere.Kubectl("create", "namespace", elsewhere.Namespace)
	elsewhere.startApp("stranger", "")
	all := u.addresses("app.kubernetes.io/instance=rings")
	coordinators := u.addresses("app.kubernetes.io/instance=rings,app.kubernetes.io/component=coordinator")
	if len(all) != 12 || len(coordinators) != 3 {
		u.Fatalf("the store has pods %q, with coordinators in %q; want 12 and 3", all, coordinators)
	}
	parts, health, fronts := with(portParts, all), with(portHealth, all), with(portRedis, coordinators)
	everything := slices.Concat(parts, health, fronts)
	elsewhere.awaitAnswers("stranger", everything, health)
	u.awaitAnswers("injected", everything, slices.Concat(parts, health)) // a bypass of the sidecar is not admitted
	u.awaitAnswers("app", everything, everything)
	elsewhere.Kubectl("delete", "namespace", elsewhere.Namespace)
}

// addresses returns the IP addresses of the pods that a selector selects.
func (u user) addresses(selector string) []string {
	u.Helper()
	return strings.Fields(u.Kubectl("get", "pods", "-l", selector, "-o", "jsonpath={.items[*].status.podIP}"))
}

func with(port string, addresses []string) []string {
	var all []string
	for _, a := range addresses {
		all = append(all, a+port)
	}
	return all
}

// awaitAnswers waits until connections from an app's pod to the addresses are answered by those that are wanted, and by
// no other.
func (u user) awaitAnswers(app string, addresses, wanted []string) {
	u.Helper()
	// All at once: each one that is not answered takes two seconds.
	const try = `for a in "$@"; do (nc -w 2 "${a%:*}" "${a#*:}" </dev/null >/dev/null 2>&1 && echo "$a") & done; wait`
	slices.Sort(wanted)
	u.Await("connections from "+app, func() string {
		out, err := u.Try("", append([]string{"exec", app, "-c", "main", "--", "sh", "-c", try, "sh"}, addresses...)...)
		answered := strings.Fields(out)
		slices.Sort(answered)
		if err == nil && slices.Equal(answered, wanted) {
			return ""
		}
		return "answered by " + strings.Join(answered, " ") + "; wanted " + strings.Join(wanted, " ")
	})
}
