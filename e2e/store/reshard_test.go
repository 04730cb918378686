//go:build e2e

package store_test

import (
	"fmt"
	"slices"
	"strings"
)

// reshard scales the shards of one data center from two to three and back. No pod restarts, and data that is not
// accessed meanwhile is still in every ring.
func reshard(u user) {
	const keys = 300
	u.redisScript("app", fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo SET kept:$i v$i; i=$((i+1)); done", keys))
	before := strings.Fields(u.pods())
	u.Kubectl("patch", "causalstore", "rings", "--type=merge", "--patch", `{"spec":{"deletionPolicy":"Delete"}}`)
	for _, shards := range []int{3, 2} {
		u.Kubectl("patch", "causalstore", "rings", "--type=json", "--patch",
			fmt.Sprintf(`[{"op":"replace","path":"/spec/dataCenters/0/shards","value":%d}]`, shards))
		u.awaitReady()
		var want []string
		for i := range shards {
			want = append(want, fmt.Sprintf("rings-north-shard-%d-0", i))
		}
		const selector = "causalstore.io/data-center=north,app.kubernetes.io/component=shard"
		u.AwaitOutput(strings.Join(want, " "), "get", "pods", "-l", selector, "-o",
			"jsonpath={.items[*].metadata.name}")
		for i := range want {
			want[i] = "data-" + want[i]
		}
		u.AwaitOutput(strings.Join(want, " "), "get", "pvc", "-l", selector, "-o", "jsonpath={.items[*].metadata.name}")
		u.assertKeys("kept", keys, fmt.Sprintf("with %d shards", shards))
		u.assertNoRestart(before, fmt.Sprintf("on scaling to %d shards", shards))
	}
	u.Kubectl("patch", "causalstore", "rings", "--type=merge", "--patch", `{"spec":{"deletionPolicy":"Retain"}}`)
}

// assertKeys checks that every ring has the keys that a script set: PREFIX:0 is v0, and so on.
func (u user) assertKeys(prefix string, keys int, when string) {
	u.Helper()
	for _, dc := range []string{"north", "east", "south"} {
		values := strings.Fields(u.redisScript("app",
			fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo GET %s:$i; i=$((i+1)); done", keys, prefix), "-h",
			"rings-"+dc))
		for i, value := range values {
			if value != fmt.Sprint("v", i) {
				u.Fatalf("%s, %s:%d is %q in %s", when, prefix, i, value, dc)
			}
		}
		if len(values) != keys {
			u.Fatalf("%s, %s has %d of %d keys", when, dc, len(values), keys)
		}
	}
}

// assertNoRestart checks that all previous pods still exist.
func (u user) assertNoRestart(before []string, when string) {
	u.Helper()
	after := strings.Fields(u.pods())
	for _, uid := range before {
		if !slices.Contains(after, uid) {
			u.Errorf("a pod restarted %s: before %q, after %q", when, before, after)
		}
	}
}

// redisScript pipes the output of a shell script to redis-cli in the pod of an app and returns the replies.
func (u user) redisScript(app, script string, args ...string) string {
	u.Helper()
	if len(args) == 0 {
		args = []string{"-h", "rings"}
	}
	return u.Kubectl("exec", app, "-c", "main", "--", "sh", "-c", "("+script+") | redis-cli "+strings.Join(args, " "))
}

// awaitEqualSizes waits until every ring has the same number of keys: after the last write they must converge.
func (u user) awaitEqualSizes() {
	u.Helper()
	u.Await("all rings to have the same number of keys", func() string {
		var sizes []string
		for _, dc := range []string{"north", "east", "south"} {
			sizes = append(sizes, u.redis("app", "rings-"+dc, "DBSIZE"))
		}
		if len(slices.Compact(slices.Clone(sizes))) != 1 || sizes[0] == "0" {
			return strings.Join(sizes, " ")
		}
		return ""
	})
}
