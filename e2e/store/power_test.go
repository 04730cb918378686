//go:build e2e

package store_test

import (
	"fmt"
	"os"

	"github.com/causalstore/causalstore/e2e/kube"
)

// losePower stops the node that has the first member of a coordinator, and the caches and the Service's pods of its data center, and then the
// node that has the coordinator's second member and members of shards of two data centers. Each stays off until the rest has served for a
// while. Shards must have two members.
func losePower(u user) {
	if !cluster.IsOurs() && os.Getenv(kube.EnvLoad) == "" {
		u.Skip("a node is stopped on a test bed only")
	}
	bed, err := kube.NewBed(u.Context())
	if err != nil {
		u.Fatal(err)
	}
	defer bed.Close()
	u.setMembers(2)
	for i, zone := range u.Zones()[:2] {
		node := u.Kubectl("get", "nodes", "-l", "topology.kubernetes.io/zone="+zone, "-o", "jsonpath={.items[0].metadata.name}")
		power := func(command string) {
			u.Helper()
			if err := bed.Run(u.Context(), command, node); err != nil {
				u.Fatal(err)
			}
		}
		power("stop-node")
		// Clients of the other data centers go on at once: the node is not yet known to be gone.
		for round := range 20 {
			for _, dc := range []string{"east", "south"} {
				key, value := fmt.Sprintf("power:%d:%s", i, dc), fmt.Sprint("round ", round)
				if got := u.redis("app", "rings-"+dc, "SET", key, value); got != "OK" {
					u.Errorf("%s without %s: SET: %s", dc, node, got)
				}
			}
		}
		u.AwaitOutput("True", "get", "causalstore", "rings", "-o", `jsonpath={.status.conditions[?(@.type=="UnderReplicated")].status}`)
		u.Logf("%s off: %s", node, u.Kubectl("get", "causalstore", "rings", "-o", `jsonpath={.status.conditions[?(@.type=="UnderReplicated")].message}`))
		for _, dc := range []string{"east", "south"} {
			for _, from := range []string{"east", "south"} {
				key := fmt.Sprintf("power:%d:%s", i, dc)
				u.AwaitOutput("round 19", "exec", "app", "--", "redis-cli", "-h", "rings-"+from, "GET", key)
			}
		}
		power("start-node")
		u.Kubectl("wait", "--for=condition=Ready", "node/"+node, "--timeout="+kube.Patience.String())
		u.awaitReady()
		u.awaitReplicated()
		for _, dc := range []string{"north", "east", "south"} {
			u.AwaitOutput("round 19", "exec", "app", "--", "redis-cli", "-h", "rings-"+dc, "GET", fmt.Sprintf("power:%d:east", i))
		}
	}
	removeMembers(u)
}
