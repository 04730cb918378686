//go:build e2e

package store_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// regroup lets one data centre have two coordinators instead of one, and then one again. The new one takes writes, which are in every
// ring when it has gone; nothing else restarts.
func regroup(u user) {
	const keys = 300
	before, known := strings.Fields(u.pods()), u.origins("north", "east", "south")
	u.kubectl("patch", "causalstore", "rings", "--type=merge", "--patch", `{"spec":{"deletionPolicy":"Delete"}}`)
	u.coordinators(2)
	u.nothingRestarted(before, "when there came to be two coordinators")
	second := ""
	u.await("the new coordinator to take writes", func() string {
		for _, o := range u.origins("north") {
			if !slices.Contains(known, o) {
				second = o
				return ""
			}
		}
		return "all are of " + strings.Join(known, " ")
	})
	// Over many connections, whose sessions the coordinators share.
	u.kubectl("exec", "app", "-c", "main", "--", "sh", "-c", fmt.Sprintf(
		"i=0; while [ $i -lt %d ]; do n=$((i+10)); while [ $i -lt $n ]; do echo SET regrouped:$i v$i; i=$((i+1)); done | redis-cli -h rings-north; i=$n; done", keys))
	u.coordinators(1)
	u.has("regrouped", keys, "when one of two coordinators had left")
	u.nothingRestarted(before, "when one of two coordinators left")
	for range 10 {
		if slices.Contains(u.origins("north"), second) {
			u.Errorf("origin %s, which has left, takes writes", second)
		}
	}
	u.kubectl("patch", "causalstore", "rings", "--type=merge", "--patch", `{"spec":{"deletionPolicy":"Retain"}}`)
}

// coordinators gives the first data centre so many, and waits until they are there, and no others, with a volume each.
func (u user) coordinators(n int) {
	u.Helper()
	u.kubectl("patch", "causalstore", "rings", "--type=json", "--patch",
		fmt.Sprintf(`[{"op":"replace","path":"/spec/dataCenters/0/coordinators/replicas","value":%d}]`, n))
	u.ready()
	var pods, claims []string
	for i := range n {
		pods, claims = append(pods, fmt.Sprintf("rings-north-cc-%d", i)), append(claims, fmt.Sprintf("data-rings-north-cc-%d", i))
	}
	const ofNorth = "causalstore.io/data-center=north,app.kubernetes.io/component=coordinator"
	u.awaitPrinted(strings.Join(pods, " "), "get", "pods", "-l", ofNorth, "-o", "jsonpath={.items[*].metadata.name}")
	u.awaitPrinted(strings.Join(claims, " "), "get", "pvc", "-l", ofNorth, "-o", "jsonpath={.items[*].metadata.name}")
}

var version = regexp.MustCompile(`\d+@(\d+)`)

// origins are the coordinators that have taken a write through each of some data centres, by number.
func (u user) origins(dataCenters ...string) (all []string) {
	u.Helper()
	for _, dc := range dataCenters {
		out := u.redisScript("app", "echo SET origin x; echo CAUSAL LAST", "-h", "rings-"+dc)
		m := version.FindStringSubmatch(out)
		if m == nil {
			u.Fatalf("a write through %s has no version: %q", dc, out)
		}
		all = append(all, m[1])
	}
	return all
}
