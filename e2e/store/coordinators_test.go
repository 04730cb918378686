//go:build e2e

package store_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// scaleCoordinators scales the coordinators of one data center from one to two and back. The new one accepts writes,
// which every ring still has when it is gone. No other pod restarts.
func scaleCoordinators(u user) {
	const keys = 300
	before, known := strings.Fields(u.pods()), u.origins("north", "east", "south")
	u.Kubectl("patch", "causalstore", "rings", "--type=merge", "--patch", `{"spec":{"deletionPolicy":"Delete"}}`)
	u.setCoordinators(2)
	u.assertNoRestart(before, "on scaling to two coordinators")
	second := ""
	u.Await("the new coordinator to accept writes", func() string {
		for _, o := range u.origins("north") {
			if !slices.Contains(known, o) {
				second = o
				return ""
			}
		}
		return "all writes went to " + strings.Join(known, " ")
	})
	// Over many connections, whose sessions are spread over the coordinators.
	u.Kubectl("exec", "app", "-c", "main", "--", "sh", "-c", fmt.Sprintf(
		"i=0; while [ $i -lt %d ]; do n=$((i+10)); while [ $i -lt $n ]; do echo SET regrouped:$i v$i; i=$((i+1)); "+
			"done | redis-cli -h rings-north; i=$n; done", keys))
	u.setCoordinators(1)
	u.assertKeys("regrouped", keys, "after scaling to one coordinator")
	u.assertNoRestart(before, "on scaling to one coordinator")
	for range 10 {
		if slices.Contains(u.origins("north"), second) {
			u.Errorf("removed coordinator %s accepts writes", second)
		}
	}
	u.Kubectl("patch", "causalstore", "rings", "--type=merge", "--patch", `{"spec":{"deletionPolicy":"Retain"}}`)
}

// setCoordinators scales the coordinators of the first data center and waits until exactly those exist, each with a
// volume.
func (u user) setCoordinators(n int) {
	u.Helper()
	u.Kubectl("patch", "causalstore", "rings", "--type=json", "--patch",
		fmt.Sprintf(`[{"op":"replace","path":"/spec/dataCenters/0/coordinators/replicas","value":%d}]`, n))
	u.awaitReady()
	var pods, claims []string
	for i := range n {
		pods, claims = append(pods, fmt.Sprintf("rings-north-cc-%d", i)),
			append(claims, fmt.Sprintf("data-rings-north-cc-%d", i))
	}
	const selector = "causalstore.io/data-center=north,app.kubernetes.io/component=coordinator"
	u.AwaitOutput(strings.Join(pods, " "), "get", "pods", "-l", selector, "-o", "jsonpath={.items[*].metadata.name}")
	u.AwaitOutput(strings.Join(claims, " "), "get", "pvc", "-l", selector, "-o", "jsonpath={.items[*].metadata.name}")
}

var version = regexp.MustCompile(`\d+@(\d+)`)

// origins writes through each of the data centers and returns the numbers of the coordinators that accepted the writes.
func (u user) origins(dataCenters ...string) (all []string) {
	u.Helper()
	for _, dc := range dataCenters {
		out := u.redisScript("app", "echo SET origin x; echo CAUSAL LAST", "-h", "rings-"+dc)
		m := version.FindStringSubmatch(out)
		if m == nil {
			u.Fatalf("a write through %s returned no version: %q", dc, out)
		}
		all = append(all, m[1])
	}
	return all
}
