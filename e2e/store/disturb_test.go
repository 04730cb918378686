//go:build e2e

package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/e2e/kube"
)

// disturbance is what happens to a store in use.
type disturbance struct {
	what string
	do   func(user)
	// errorFree is set if no operation may fail, short if it is quick.
	errorFree, short bool
	// elsewhere are data centers that have clients of their own, none of whose operations may fail.
	elsewhere []string
}

// disturb does to a store in use what happens to every store. With -short it leaves out what takes minutes: those
// disturbances need tests of their own that are faster, with the API server or with processes.
func (j *journey) disturb(u user) {
	for _, d := range []disturbance{
		{"pods of a cache, a coordinator and a shard are deleted", deletePods, false, true, nil},
		{"the operator is down", stopOperator, false, false, nil},
		{"all pods restart one by one", rollingUpdate, false, false, nil},
		{"volumes grow", growVolumes, false, false, nil},
		{"shards are added and removed", reshard, false, false, nil},
		{"coordinators are added and removed", scaleCoordinators, true, false, nil},
		{"the front zone of a ring is without power for a minute", loseFrontZone, false, false,
			[]string{"east", "south"}},
		{"coordinators get a second member", addMembers, false, false, nil},
		{"members are lost, one with its volume", loseMembers, false, false, nil},
		{"all pods with members restart one by one", rollingUpdate, false, false, nil},
		{"coordinators have one member again", removeMembers, false, false, nil},
		{"shards get a second member", addShardMembers, false, false, nil},
		{"members of shards are lost, one with its volumes", loseShardMembers, false, false, nil},
		{"all members of a shard are lost, with their volumes", loseShard, false, false, []string{"east", "south"}},
		{"all pods with members of shards restart one by one", rollingUpdate, false, false, nil},
		{"shards with members are added and removed", reshardMembers, false, false, nil},
		{"the hosts of a data center with members lose power in turn", losePower, false, false, nil},
		{"shards have one member again", removeShardMembers, false, false, nil},
		{"another version of the operator restarts nothing", upgradeOperator, true, true, nil},
	} {
		if testing.Short() && !d.short {
			continue
		}
		if !u.Run(d.what, func(t *testing.T) { underLoad(in(t, u.Namespace), d) }) {
			return
		}
	}
}

// underLoad calls do while clients load the store: through the Services of all data centers, through a sidecar of
// north, and, if data centers elsewhere are named, only through the Services of these. When the store is ready again,
// the clients stop and check their histories.
func underLoad(u user, d disturbance) {
	type clients struct {
		name      string
		errorFree bool
	}
	all := []clients{{"load", d.errorFree}, {"load-injected", d.errorFree}}
	u.Apply(kube.LoadPod("load", "", u.appZone(), kube.LoadRate, endpoints("north", "east", "south")))
	u.applyInjected("load-injected", kube.LoadPod("load-injected", "north", u.appZone(), kube.LoadRate,
		"--endpoint=pod=rings:6379, --sessions=12, --session=endpoint"))
	if len(d.elsewhere) > 0 {
		u.Apply(kube.LoadPod("load-elsewhere", "", u.appZone(), kube.LoadRate, endpoints(d.elsewhere...)))
		all = append(all, clients{"load-elsewhere", true})
	}
	for _, c := range all {
		u.Await(c.name+" to run", func() string { return u.LoadProblem(c.name) })
	}
	d.do(u)
	u.awaitReady()
	for _, c := range all {
		if why := u.LoadProblem(c.name); why != "" {
			u.Errorf("%s ended too early: %s", c.name, why)
		}
		u.StopLoad(c.name)
	}
	for _, c := range all {
		if report := u.LoadReport(c.name); c.errorFree && !strings.Contains(report, " 0 failed, 0 of unknown outcome") {
			u.Errorf("operations of %s failed or have an unknown outcome", c.name)
		}
	}
	u.awaitEqualSizes()
	if !u.Failed() { // a failed load's pod keeps its history
		remove := []string{"delete", "pod", "--wait"}
		for _, c := range all {
			remove = append(remove, c.name)
		}
		u.Kubectl(remove...)
	}
}

// endpoints returns the flags of a load through the Services of data centers.
func endpoints(dataCenters ...string) string {
	flags := []string{"--sessions=48"} // each has its own reads to wait for
	for _, dc := range dataCenters {
		flags = append(flags, fmt.Sprintf("--endpoint=%[1]s=rings-%[1]s:6379", dc))
	}
	return strings.Join(flags, ", ")
}

// applyInjected creates a pod that must have a sidecar, through which all its connections are one session. If the
// webhook does not answer in time, the pod gets none, and is created again.
func (u user) applyInjected(name, manifest string) {
	u.Helper()
	u.Await(name+" to get a sidecar", func() string {
		u.Apply(manifest)
		if of := u.Kubectl("get", "pod", name, "-o",
			`jsonpath={.metadata.annotations.causalstore\.io/injected}`); of != "" {
			return ""
		}
		why := u.Kubectl("get", "pod", name, "-o", `jsonpath={.metadata.annotations.causalstore\.io/not-injected}`)
		u.Kubectl("delete", "pod", name, "--wait")
		return "not injected: " + why
	})
}

func deletePods(u user) {
	for _, p := range []string{"rings-north-cache-0", "rings-east-cc-0", "rings-south-shard-1-0"} {
		uid := u.Kubectl("get", "pod", p, "-o", "jsonpath={.metadata.uid}")
		u.Kubectl("delete", "pod", p, "--wait=false")
		u.awaitReplaced(p, uid)
	}
}

// awaitReplaced waits until a new pod of the same name is ready.
func (u user) awaitReplaced(name, oldUID string) {
	u.Helper()
	u.Await(name+" to be replaced", func() string {
		out, err := u.Try("", "get", "pod", name, "-o",
			`jsonpath={.metadata.uid} {.status.conditions[?(@.type=="Ready")].status}`)
		if fields := strings.Fields(out); err == nil && len(fields) == 2 && fields[0] != oldUID && fields[1] == "True" {
			return ""
		}
		return out
	})
}

func stopOperator(u user) {
	operator := in(u.T, kube.OperatorNamespace)
	operator.Kubectl("scale", "deployment/causalstore", "--replicas=0")
	operator.AwaitOutput("", "get", "pods", "-o", "name")
	// Without the operator, lost pods are replaced and pods of apps are admitted.
	uid := u.Kubectl("get", "pod", "rings-north-shard-0-0", "-o", "jsonpath={.metadata.uid}")
	u.Kubectl("delete", "pod", "rings-north-shard-0-0", "--wait=false")
	u.startApp("without-operator", "east")
	u.awaitReplaced("rings-north-shard-0-0", uid)
	u.Kubectl("delete", "pod", "without-operator")
	operator.Kubectl("scale", "deployment/causalstore", "--replicas=2")
	operator.Kubectl("rollout", "status", "deployment/causalstore", "--timeout="+kube.Patience.String())
}

// rollingUpdate restarts all pods and waits until each was replaced.
func rollingUpdate(u user) {
	before := strings.Fields(u.pods())
	u.Kubectl("annotate", "causalstore", "rings", "causalstore.io/restart="+before[0], "--overwrite")
	u.Await("all pods to be replaced", func() string {
		var old []string
		for _, uid := range strings.Fields(u.pods()) {
			if slices.Contains(before, uid) {
				old = append(old, uid)
			}
		}
		return strings.Join(old, " ")
	})
}

// pods returns the UIDs of the store's pods.
func (u user) pods() string {
	u.Helper()
	return u.Kubectl("get", "pods", "-l", "app.kubernetes.io/instance=rings", "-o", "jsonpath={.items[*].metadata.uid}")
}

// growVolumes expands the volumes of the shards, if their storage class allows it.
func growVolumes(u user) {
	const shards = "app.kubernetes.io/instance=rings,app.kubernetes.io/component=shard"
	class := strings.Fields(u.Kubectl("get", "pvc", "-l", shards, "-o",
		"jsonpath={.items[*].spec.storageClassName}"))[0]
	if u.Kubectl("get", "storageclass", class, "-o", "jsonpath={.allowVolumeExpansion}") != "true" {
		u.Logf("not tested: storage class %s does not allow expansion", class)
		return
	}
	before := u.pods()
	u.Apply(grown(u.sample()))
	u.AwaitOutput("2Gi 2Gi 2Gi 2Gi 2Gi 2Gi", "get", "pvc", "-l", shards, "-o",
		"jsonpath={.items[*].status.capacity.storage}")
	u.awaitReady()
	if after := u.pods(); after != before {
		u.Errorf("expanding volumes replaced pods: before %s, after %s", before, after)
	}
}

// grown returns the sample with larger volumes.
func grown(sample string) string {
	return strings.Replace(sample, "\n    volume: {size: 1Gi}\n", "\n    volume: {size: 2Gi}\n", 1)
}

// upgradeOperator installs an operator of another image, lets it carry out a change, and checks that no pod of the
// store is replaced.
func upgradeOperator(u user) {
	operator := in(u.T, kube.OperatorNamespace)
	before := u.pods()
	operator.Helm("upgrade", "causalstore", "charts/causalstore", "--reuse-values", "--set",
		kube.ImageValues(kube.ImageNext), "--wait", "--timeout", kube.Patience.String())
	u.Kubectl("patch", "causalstore", "rings", "--type=merge", "--patch",
		`{"spec":{"access":{"namespaces":{"matchLabels":{"team":"shop"}}}}}`)
	u.AwaitOutput("shop", "get", "networkpolicy", "rings-front", "-o",
		"jsonpath={.spec.ingress[*].from[*].namespaceSelector.matchLabels.team}")
	operator.AwaitOutput(kube.ImageNext, "get", "pods", "-o", "jsonpath={.items[0].spec.containers[0].image}")
	u.awaitReady()
	if after := u.pods(); after != before {
		u.Errorf("the upgrade replaced pods: before %s, after %s", before, after)
	}
}
