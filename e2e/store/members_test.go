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
	u.AwaitOutput("3", "get", "statefulset", "rings-north-etcd", "-o", "jsonpath={.status.readyReplicas}")
	for _, dc := range []string{"north", "east", "south"} {
		u.assertMembersApart(dc)
	}
}

// loseMembers deletes the pods of both members of a coordinator, one after the other, the second time with their
// volumes.
func loseMembers(u user) { u.loseMembers("rings-north-cc-0", "rings-north-cc-m2-0", "data-") }

// loseMembers deletes the pods of both members of a group, one after the other, the second time with their volumes.
func (u user) loseMembers(first, second string, claims ...string) {
	u.Helper()
	for _, m := range []struct {
		pod     string
		volumes bool
	}{{first, false}, {second, false}, {second, true}, {first, true}} {
		uid := u.Kubectl("get", "pod", m.pod, "-o", "jsonpath={.metadata.uid}")
		for _, claim := range claims {
			if m.volumes {
				u.Kubectl("delete", "pvc", claim+m.pod, "--wait=false")
			}
		}
		u.Kubectl("delete", "pod", m.pod, "--wait=false", "--grace-period=0", "--force")
		u.awaitReplaced(m.pod, uid)
		u.awaitReplicated()
	}
}

// removeMembers takes the second members away again.
func removeMembers(u user) {
	u.setMembers(1)
	u.AwaitOutput("rings-east-cc-0 rings-north-cc-0 rings-south-cc-0", "get", "pods", "-l", ofCoordinators, "-o",
		"jsonpath={.items[*].metadata.name}")
}

// setMembers changes how many members the coordinators of each data center have, and waits until they do.
func (u user) setMembers(n int) {
	u.Helper()
	var patch []string
	for i := range 3 {
		patch = append(patch, fmt.Sprintf(`{"op":"add","path":"/spec/dataCenters/%d/coordinators/members","value":%d}`,
			i, n), u.etcdPatch(i))
	}
	u.Kubectl("patch", "causalstore", "rings", "--type=json", "--patch", "["+strings.Join(patch, ",")+"]")
	u.awaitReady()
	u.awaitReplicated()
}

// etcdPatch returns a JSON patch of the etcd of a data center: in the first one three pods in three zones, so that any
// zone may go, and in the others one.
func (u user) etcdPatch(dc int) string {
	u.Helper()
	if dc > 0 {
		return fmt.Sprintf(`{"op":"add","path":"/spec/dataCenters/%d/etcd","value":{"replicas":1}}`, dc)
	}
	zones, err := json.Marshal(u.Zones()[:3])
	if err != nil {
		u.Fatal(err)
	}
	return fmt.Sprintf(`{"op":"add","path":"/spec/dataCenters/0/etcd","value":{"replicas":3,"zones":%s}}`, zones)
}

// awaitReplicated waits until every group has all of its members.
func (u user) awaitReplicated() {
	u.Helper()
	u.AwaitOutput("False", "get", "causalstore", "rings", "-o",
		`jsonpath={.status.conditions[?(@.type=="UnderReplicated")].status}`)
}

// assertMembersApart checks that the members of the coordinator of a data center are on different nodes, and the second
// in a back zone.
func (u user) assertMembersApart(dc string) {
	u.Helper()
	pods := u.podsOf(ofCoordinators + ",causalstore.io/data-center=" + dc)
	nodes := map[string]bool{}
	for _, p := range pods {
		nodes[p.Spec.NodeName] = true
		zone := u.Kubectl("get", "node", p.Spec.NodeName, "-o",
			`jsonpath={.metadata.labels.topology\.kubernetes\.io/zone}`)
		side := "frontend"
		if strings.Contains(p.Metadata.Name, "-m2-") {
			side = "backend"
		}
		want := u.Kubectl("get", "causalstore", "rings", "-o",
			fmt.Sprintf(`jsonpath={.spec.dataCenters[?(@.name=="%s")].zones.%s[0]}`, dc, side))
		if zone != want {
			u.Errorf("%s is in %s, want %s", p.Metadata.Name, zone, want)
		}
	}
	if len(pods) != 2 || len(nodes) != 2 {
		u.Errorf("the coordinator of %s has %d members on %d nodes", dc, len(pods), len(nodes))
	}
}

// placedPod is where a pod runs.
type placedPod struct {
	Metadata struct{ Name string }
	Spec     struct{ NodeName string }
}

// podsOf returns the pods that a selector selects.
func (u user) podsOf(selector string) []placedPod {
	u.Helper()
	var pods struct{ Items []placedPod }
	if err := json.Unmarshal([]byte(u.Kubectl("get", "pods", "-l", selector, "-o", "json")), &pods); err != nil {
		u.Fatal(err)
	}
	return pods.Items
}
