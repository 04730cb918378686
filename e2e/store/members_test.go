//go:build e2e

package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
)

const ofCoordinators = "app.kubernetes.io/instance=rings,app.kubernetes.io/component=coordinator"

// addMembers gives each coordinator a second member, in a back zone. An etcd comes up for each data center.
func addMembers(u user) {
	u.setMembers(2)
	u.AwaitOutput("1", "get", "statefulset", "rings-north-etcd", "-o", "jsonpath={.status.readyReplicas}")
	for _, dc := range []string{"north", "east", "south"} {
		u.assertMembersApart(dc)
	}
}

// loseMembers deletes the pods of both members of a coordinator, one after the other, the second with its volume.
func loseMembers(u user) {
	for _, m := range []struct {
		pod    string
		volume bool
	}{{"rings-north-cc-0", false}, {"rings-north-cc-m2-0", false}, {"rings-north-cc-m2-0", true}, {"rings-north-cc-0", true}} {
		uid := u.Kubectl("get", "pod", m.pod, "-o", "jsonpath={.metadata.uid}")
		if m.volume {
			u.Kubectl("delete", "pvc", "data-"+m.pod, "--wait=false")
		}
		u.Kubectl("delete", "pod", m.pod, "--wait=false", "--grace-period=0", "--force")
		u.awaitReplaced(m.pod, uid)
		u.awaitReplicated()
	}
}

// removeMembers takes the second members away again.
func removeMembers(u user) {
	u.setMembers(1)
	u.AwaitOutput("rings-east-cc-0 rings-north-cc-0 rings-south-cc-0", "get", "pods", "-l", ofCoordinators, "-o", "jsonpath={.items[*].metadata.name}")
}

// setMembers changes how many members the coordinators of each data center have, and waits until they do.
func (u user) setMembers(n int) {
	u.Helper()
	var patch []string
	for i := range 3 {
		patch = append(patch, fmt.Sprintf(`{"op":"add","path":"/spec/dataCenters/%d/coordinators/members","value":%d},`+
			`{"op":"add","path":"/spec/dataCenters/%d/etcd/replicas","value":1}`, i, n, i))
	}
	u.Kubectl("patch", "causalstore", "rings", "--type=json", "--patch", "["+strings.Join(patch, ",")+"]")
	u.awaitReady()
	u.awaitReplicated()
}

// awaitReplicated waits until every group has all of its members.
func (u user) awaitReplicated() {
	u.Helper()
	u.AwaitOutput("False", "get", "causalstore", "rings", "-o", `jsonpath={.status.conditions[?(@.type=="UnderReplicated")].status}`)
}

// assertMembersApart checks that the members of the coordinator of a data center are on different nodes, and the second in a back zone.
func (u user) assertMembersApart(dc string) {
	u.Helper()
	var pods struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ NodeName string }
		}
	}
	if err := json.Unmarshal([]byte(u.Kubectl("get", "pods", "-l", ofCoordinators+",causalstore.io/data-center="+dc, "-o", "json")), &pods); err != nil {
		u.Fatal(err)
	}
	nodes := map[string]bool{}
	for _, p := range pods.Items {
		nodes[p.Spec.NodeName] = true
		zone := u.Kubectl("get", "node", p.Spec.NodeName, "-o", `jsonpath={.metadata.labels.topology\.kubernetes\.io/zone}`)
		side := "frontend"
		if strings.Contains(p.Metadata.Name, "-m2-") {
			side = "backend"
		}
		want := u.Kubectl("get", "causalstore", "rings", "-o", fmt.Sprintf(`jsonpath={.spec.dataCenters[?(@.name=="%s")].zones.%s[0]}`, dc, side))
		if zone != want {
			u.Errorf("%s is in %s, want %s", p.Metadata.Name, zone, want)
		}
	}
	if len(pods.Items) != 2 || len(nodes) != 2 {
		u.Errorf("the coordinator of %s has %d members on %d nodes", dc, len(pods.Items), len(nodes))
	}
}
