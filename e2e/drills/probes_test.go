//go:build e2e

package drills_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/e2e/kube"
)

// pod is a pod of the store.
type pod struct{ name, uid, address, zone string }

// portParts is what every part listens on.
const portParts = "7400"

// probe is the name of the container in each pod that tries connections to the others.
const probe = "probe"

// pods returns the pods of the store, once all have an address.
func (u user) pods() []pod {
	u.Helper()
	const columns = `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.status.podIP} {.metadata.labels.causalstore\.io/zone}{"\n"}{end}`
	var all []pod
	u.Await("8 pods with addresses and zones", func() string {
		all = nil
		out, err := u.Try("", "get", "pods", "-l", ofStore, "-o", columns)
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) == 4 {
				all = append(all, pod{f[0], f[1], f[2], f[3]})
			}
		}
		if err != nil || len(all) != 8 {
			return out
		}
		return ""
	})
	return all
}

// addProbes adds an ephemeral container with a shell to each pod that has none.
func (u user) addProbes() {
	u.Helper()
	for _, p := range u.pods() {
		if u.Kubectl("get", "pod", p.name, "-o", "jsonpath={.spec.ephemeralContainers[*].name}") == "" {
			u.Kubectl("debug", p.name, "--image="+kube.ImageApp, "--image-pull-policy=IfNotPresent",
				"--container="+probe, "--profile=restricted", "--attach=false", "--", "sleep", "86400")
		}
		u.Await("the probe in "+p.name+" to run", func() string {
			out, err := u.Try("", "get", "pod", p.name, "-o", `jsonpath={.status.ephemeralContainerStatuses[0].state}`)
			if err != nil || !strings.Contains(out, `"running"`) {
				return "state " + out
			}
			return ""
		})
	}
}

// awaitConnections waits until connections from each pod to each other one are accepted if they are wanted, and not
// otherwise.
func (u user) awaitConnections(all []pod, wanted func(from, to pod) bool) {
	u.Helper()
	u.Await("the connections between the pods of the store", func() string {
		results := make(chan string)
		for _, from := range all {
			go func() { results <- u.connectionProblem(from, all, wanted) }()
		}
		var problems []string
		for range all {
			if p := <-results; p != "" {
				problems = append(problems, p)
			}
		}
		slices.Sort(problems)
		return strings.Join(problems, "; ")
	})
}

// connectionProblem tries connections from a pod to all others, all at once: each one that is not accepted takes two
// seconds.
func (u user) connectionProblem(from pod, all []pod, wanted func(from, to pod) bool) string {
	const try = `for a in "$@"; do (nc -w 2 "$a" ` + portParts +
		` </dev/null >/dev/null 2>&1 && echo "$a") & done; wait`
	args := []string{"exec", from.name, "-c", probe, "--", "sh", "-c", try, "sh"}
	var want []string
	for _, to := range all {
		if to.name != from.name {
			args = append(args, to.address)
			if wanted(from, to) {
				want = append(want, to.address)
			}
		}
	}
	out, err := u.Try("", args...)
	got := strings.Fields(out)
	slices.Sort(got)
	slices.Sort(want)
	if err == nil && slices.Equal(got, want) {
		return ""
	}
	return fmt.Sprintf("from %s (%s, %s): answered by %q (%v), want %q", from.name, from.zone, from.address,
		got, err, want)
}

// cutOff waits until no connection crosses the border of a zone, in either direction, and all others are accepted.
func cutOff(zone string) func(user, []pod) {
	return func(u user, before []pod) {
		u.Helper()
		actual := u.Zones()[slices.Index(cluster.Zones, zone)]
		u.awaitInjected()
		u.awaitConnections(before, func(from, to pod) bool { return (from.zone == actual) == (to.zone == actual) })
	}
}

// awaitInjected waits until the experiment reports that all of its pods are affected.
func (u user) awaitInjected() {
	u.Helper()
	u.AwaitOutput("True", "get", "networkchaos", "drill", "-o",
		`jsonpath={.status.conditions[?(@.type=="AllInjected")].status}`)
}

// replaced waits until another pod has the name of the killed one.
func replaced(u user, before []pod) {
	u.Helper()
	i := slices.IndexFunc(before, func(p pod) bool { return p.name == firstPod })
	u.Await(firstPod+" to be killed", func() string {
		out, err := u.Try("", "get", "pod", firstPod, "-o", "jsonpath={.metadata.uid}")
		if err != nil || out == before[i].uid {
			return out
		}
		return ""
	})
}

// doesNotAnswer waits until the pod is there and accepts no connection, while all others do.
func doesNotAnswer(u user, before []pod) {
	u.Helper()
	others := slices.DeleteFunc(slices.Clone(before), func(p pod) bool { return p.name == firstPod })
	u.Await(firstPod+" not to answer", func() string {
		return u.connectionProblem(others[0], before, func(_, to pod) bool { return to.name != firstPod })
	})
	u.awaitConnections(others, func(pod, pod) bool { return true })
	i := slices.IndexFunc(before, func(p pod) bool { return p.name == firstPod })
	if uid := u.Kubectl("get", "pod", firstPod, "-o", "jsonpath={.metadata.uid}"); uid != before[i].uid {
		u.Errorf("%s was replaced", firstPod)
	}
}
