//go:build e2e

package store_test

import (
	"fmt"
	"slices"
	"strings"
)

// reshard lets one data centre have three shards instead of two, and then two again. Nothing restarts for it, and data that
// nobody touches meanwhile is there afterwards, in every ring.
func reshard(u user) {
	const keys = 300
	u.redisScript("app", fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo SET kept:$i v$i; i=$((i+1)); done", keys))
	before := strings.Fields(u.pods())
	u.kubectl("patch", "causalstore", "rings", "--type=merge", "--patch", `{"spec":{"deletionPolicy":"Delete"}}`)
	for _, shards := range []int{3, 2} {
		u.kubectl("patch", "causalstore", "rings", "--type=json", "--patch",
			fmt.Sprintf(`[{"op":"replace","path":"/spec/dataCenters/0/shards","value":%d}]`, shards))
		u.ready()
		var want []string
		for i := range shards {
			want = append(want, fmt.Sprintf("rings-north-shard-%d-0", i))
		}
		const ofNorth = "causalstore.io/data-center=north,app.kubernetes.io/component=shard"
		u.awaitPrinted(strings.Join(want, " "), "get", "pods", "-l", ofNorth, "-o", "jsonpath={.items[*].metadata.name}")
		for i := range want {
			want[i] = "data-" + want[i]
		}
		u.awaitPrinted(strings.Join(want, " "), "get", "pvc", "-l", ofNorth, "-o", "jsonpath={.items[*].metadata.name}")
		u.has("kept", keys, fmt.Sprintf("with %d shards", shards))
		u.nothingRestarted(before, fmt.Sprintf("when there came to be %d shards", shards))
	}
	u.kubectl("patch", "causalstore", "rings", "--type=merge", "--patch", `{"spec":{"deletionPolicy":"Retain"}}`)
}

// has says that every ring has keys that a script has set: PREFIX:0 is v0, and so on.
func (u user) has(prefix string, keys int, when string) {
	u.Helper()
	for _, dc := range []string{"north", "east", "south"} {
		is := strings.Fields(u.redisScript("app", fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo GET %s:$i; i=$((i+1)); done", keys, prefix), "-h", "rings-"+dc))
		for i, value := range is {
			if value != fmt.Sprint("v", i) {
				u.Fatalf("%s, %s:%d is %q in %s", when, prefix, i, value, dc)
			}
		}
		if len(is) != keys {
			u.Fatalf("%s, %s has %d of %d keys", when, dc, len(is), keys)
		}
	}
}

// nothingRestarted says that pods of before are all there.
func (u user) nothingRestarted(before []string, when string) {
	u.Helper()
	after := strings.Fields(u.pods())
	for _, uid := range before {
		if !slices.Contains(after, uid) {
			u.Errorf("a pod restarted %s: before %q, after %q", when, before, after)
		}
	}
}

// redisScript gives redis-cli in an app the commands that a script prints, and returns the replies.
func (u user) redisScript(app, script string, args ...string) string {
	u.Helper()
	if len(args) == 0 {
		args = []string{"-h", "rings"}
	}
	return u.kubectl("exec", app, "-c", "main", "--", "sh", "-c", "("+script+") | redis-cli "+strings.Join(args, " "))
}

// sameSize: when nobody writes, every ring holds as many keys, none of them twice.
func (u user) sameSize() {
	u.Helper()
	u.await("rings to hold as many keys", func() string {
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
