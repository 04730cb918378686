//go:build e2e

package store_test

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/causalstore/causalstore/e2e/kube"
)

// outage is how long the front zone of a ring stays without power, at least.
const outage = time.Minute

// loseFrontZone stops the only node of the front zone of the only data center of a ring: its coordinator, which has one
// member, its cache, its Service's pods, and one of the two name servers of the cluster. No write is complete until
// they are back, and no other data center needs them.
func loseFrontZone(u user) {
	bed := u.openBed()
	defer bed.Close()
	front := u.Zones()[0]
	node := u.nodeOf(front)
	if zones := u.Kubectl("get", "causalstore", "rings", "-o",
		"jsonpath={.spec.dataCenters[0].zones.frontend} {.spec.rings[0].dataCenters}"); zones != fmt.Sprintf(
		`[%q] ["north"]`, front) {
		u.Fatalf("the first front zones and ring are %s: want a ring with one front zone, %s", zones, front)
	}
	u.placeNameServer(node)
	u.power(bed, "stop-node", node)
	off := time.Now()
	u.AwaitOutput("True", "get", "causalstore", "rings", "-o",
		`jsonpath={.status.conditions[?(@.type=="Degraded")].status}`)
	u.Logf("%s off, after %.0f s: %s", node, time.Since(off).Seconds(),
		u.Kubectl("get", "causalstore", "rings", "-o", `jsonpath={.status.conditions[?(@.type=="Degraded")].message}`))
	for n := 1; time.Since(off) < outage; n++ {
		if got := u.redis("app", "rings-east", "SET", "without-front", fmt.Sprint("v", n)); got != "OK" {
			u.Errorf("east without %s: SET: %s", node, got)
		}
		u.AwaitOutput(fmt.Sprint("v", n), "exec", "app", "-c", "main", "--", "redis-cli", "-h", "rings-south", "GET",
			"without-front")
	}
	u.power(bed, "start-node", node)
	on := time.Now()
	u.AwaitOutput("OK", "exec", "app", "-c", "main", "--", "redis-cli", "-h", "rings-north", "SET",
		"front-is-back", "yes")
	front = fmt.Sprintf("its front took a write %.0f s after that", time.Since(on).Seconds())
	u.awaitReady()
	u.Logf("%s was off for %.0f s; %s, and the store was ready after %.0f s", node, on.Sub(off).Seconds(), front,
		time.Since(on).Seconds())
}

// placeNameServer makes one of the name servers of the cluster run on a node, and the others elsewhere.
func (u user) placeNameServer(node string) {
	u.Helper()
	dns := in(u.T, "kube-system")
	servers := func(where string) []string {
		return strings.Fields(dns.Kubectl("get", "pods", "--selector=k8s-app=kube-dns",
			"--field-selector=spec.nodeName"+where+node, "-o", "name"))
	}
	var toMove []string
	switch here := servers("="); len(here) {
	case 0:
		toMove = servers("!=")[:1]
		u.Kubectl("cordon", "--selector=kubernetes.io/hostname!="+node)
		defer u.Kubectl("uncordon", "--selector=kubernetes.io/hostname!="+node)
	default:
		toMove = here[1:]
		u.Kubectl("cordon", node)
		defer u.Kubectl("uncordon", node)
	}
	for _, pod := range toMove {
		dns.Kubectl("delete", pod, "--wait")
	}
	dns.Kubectl("rollout", "status", "deployment/coredns", "--timeout="+kube.Patience.String())
	if n := len(servers("=")); n != 1 {
		u.Fatalf("%d name servers run on %s, want one", n, node)
	}
}

// openBed returns the program of the test bed. On another cluster the test is skipped: nodes are stopped on a test bed
// only.
func (u user) openBed() *kube.Bed {
	u.Helper()
	if !cluster.IsOurs() && os.Getenv(kube.EnvLoad) == "" {
		u.Skip("a node is stopped on a test bed only")
	}
	bed, err := kube.NewBed(u.Context())
	if err != nil {
		u.Fatal(err)
	}
	return bed
}

// nodeOf returns the first node of a zone.
func (u user) nodeOf(zone string) string {
	u.Helper()
	return u.Kubectl("get", "nodes", "-l", "topology.kubernetes.io/zone="+zone, "-o",
		"jsonpath={.items[0].metadata.name}")
}

// power runs stop-node or start-node.
func (u user) power(bed *kube.Bed, command, node string) {
	u.Helper()
	if err := bed.Run(u.Context(), command, node); err != nil {
		u.Fatal(err)
	}
}

// losePower stops the node that has the first member of a coordinator, and the caches and the Service's pods of its
// data center, and then the node that has the coordinator's second member and members of shards of two data centers.
// Each stays off until the rest has served for a while. Shards must have two members.
func losePower(u user) {
	bed := u.openBed()
	defer bed.Close()
	u.setMembers(2)
	for i, zone := range u.Zones()[:2] {
		node := u.nodeOf(zone)
		u.power(bed, "stop-node", node)
		// Clients of the other data centers go on at once: the node is not yet known to be gone.
		for round := range 20 {
			for _, dc := range []string{"east", "south"} {
				key, value := fmt.Sprintf("power:%d:%s", i, dc), fmt.Sprint("round ", round)
				if got := u.redis("app", "rings-"+dc, "SET", key, value); got != "OK" {
					u.Errorf("%s without %s: SET: %s", dc, node, got)
				}
			}
		}
		u.AwaitOutput("True", "get", "causalstore", "rings", "-o",
			`jsonpath={.status.conditions[?(@.type=="UnderReplicated")].status}`)
		u.Logf("%s off: %s", node, u.Kubectl("get", "causalstore", "rings", "-o",
			`jsonpath={.status.conditions[?(@.type=="UnderReplicated")].message}`))
		for _, dc := range []string{"east", "south"} {
			for _, from := range []string{"east", "south"} {
				key := fmt.Sprintf("power:%d:%s", i, dc)
				u.AwaitOutput("round 19", "exec", "app", "--", "redis-cli", "-h", "rings-"+from, "GET", key)
			}
		}
		u.power(bed, "start-node", node)
		u.Kubectl("wait", "--for=condition=Ready", "node/"+node, "--timeout="+kube.Patience.String())
		u.awaitReady()
		u.awaitReplicated()
		for _, dc := range []string{"north", "east", "south"} {
			u.AwaitOutput("round 19", "exec", "app", "--", "redis-cli", "-h", "rings-"+dc, "GET",
				fmt.Sprintf("power:%d:east", i))
		}
	}
	removeMembers(u)
}
