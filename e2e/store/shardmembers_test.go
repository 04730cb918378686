//go:build e2e

package store_test

import (
	"fmt"
	"strings"
)

const ofShards = "app.kubernetes.io/instance=rings,app.kubernetes.io/component=shard"

// addShardMembers gives each shard a second member. The shards of a data center get a second back zone for it, that of
// the next one, because the test bed has one node in each zone. What is there already is copied.
func addShardMembers(u user) {
	const keys = 300
	u.redisScript("app", fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo SET copied:$i v$i; i=$((i+1)); done", keys))
	var patch []string
	for i := range 3 {
		backend := u.backZone(i)
		patch = append(patch, u.etcdPatch(i),
			fmt.Sprintf(`{"op":"replace","path":"/spec/dataCenters/%d/zones/backend","value":[%q,%q]}`, i, backend,
				u.backZone((i+1)%3)))
	}
	u.Kubectl("patch", "causalstore", "rings", "--type=json", "--patch", "["+strings.Join(patch, ",")+"]")
	u.setShardMembers(2)
	for _, dc := range []string{"north", "east", "south"} {
		for shard := range 2 {
			nodes := map[string]bool{}
			for _, p := range u.podsOf(fmt.Sprintf("%s,causalstore.io/data-center=%s,causalstore.io/shard=%d", ofShards,
				dc, shard)) {
				nodes[p.Spec.NodeName] = true
			}
			if len(nodes) != 2 {
				u.Errorf("the members of shard %d of %s are on %d nodes", shard, dc, len(nodes))
			}
		}
	}
	u.assertKeys("copied", keys, "with two members")
}

// backZone returns the first back zone of a data center.
func (u user) backZone(dc int) string {
	u.Helper()
	return u.Kubectl("get", "causalstore", "rings", "-o",
		fmt.Sprintf("jsonpath={.spec.dataCenters[%d].zones.backend[0]}", dc))
}

// setShardMembers changes how many members each shard has, and waits until it does.
func (u user) setShardMembers(n int) {
	u.Helper()
	u.Kubectl("patch", "causalstore", "rings", "--type=merge", "--patch",
		fmt.Sprintf(`{"spec":{"storage":{"replicas":%d}}}`, n))
	u.awaitReady()
	u.awaitReplicated()
}

// loseShardMembers deletes the pods of both members of a shard, one after the other, the second time with the volumes
// of their data and logs.
func loseShardMembers(u user) {
	const keys = 300
	u.loseMembers("rings-north-shard-0-0", "rings-north-s0-m2-0", "data-", "log-")
	u.assertKeys("copied", keys, "after the loss of each member's volumes")
}

// reshardMembers gives a data center whose shards have members a third shard, and takes it away again.
func reshardMembers(u user) {
	const keys = 300
	before := strings.Fields(u.pods())
	for _, shards := range []int{3, 2} {
		u.Kubectl("patch", "causalstore", "rings", "--type=json", "--patch",
			fmt.Sprintf(`[{"op":"replace","path":"/spec/dataCenters/0/shards","value":%d}]`, shards))
		u.awaitReady()
		u.awaitReplicated()
		var want []string
		for i := range shards {
			want = append(want, fmt.Sprintf("rings-north-s%d-m2-0", i))
		}
		for i := range shards {
			want = append(want, fmt.Sprintf("rings-north-shard-%d-0", i))
		}
		u.AwaitOutput(strings.Join(want, " "), "get", "pods", "-l", ofShards+",causalstore.io/data-center=north", "-o",
			"jsonpath={.items[*].metadata.name}")
		u.assertKeys("copied", keys, fmt.Sprintf("with %d shards of two members", shards))
	}
	u.assertNoRestart(before, "on resharding with members")
}

// removeShardMembers takes the second members away again. The register and the logs stay.
func removeShardMembers(u user) {
	const keys = 300
	u.setShardMembers(1)
	var want []string
	for _, dc := range []string{"east", "north", "south"} {
		want = append(want, fmt.Sprintf("rings-%s-shard-0-0 rings-%s-shard-1-0", dc, dc))
	}
	u.AwaitOutput(strings.Join(want, " "), "get", "pods", "-l", ofShards, "-o", "jsonpath={.items[*].metadata.name}")
	u.assertKeys("copied", keys, "with one member again")
}
