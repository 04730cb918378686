//go:build e2e

package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/e2e/kube"
)

// disturb does to a store in use what happens to every store. With -short it leaves out what takes minutes: those disturbances need tests
// of their own that are faster, with the API server or with processes.
func (j *journey) disturb(u user) {
	for _, disturbance := range []struct {
		what string
		do   func(user)
		// errorFree is set if no operation may fail, short if it is quick.
		errorFree, short bool
	}{
		{"pods of a cache, a coordinator and a shard are deleted", deletePods, false, true},
		{"the operator is down", stopOperator, false, false},
		{"all pods restart one by one", rollingUpdate, false, false},
		{"volumes grow", growVolumes, false, false},
		{"shards are added and removed", reshard, false, false},
		{"coordinators are added and removed", scaleCoordinators, true, false},
		{"coordinators get a second member", addMembers, false, false},
		{"members are lost, one with its volume", loseMembers, false, false},
		{"all pods with members restart one by one", rollingUpdate, false, false},
		{"coordinators have one member again", removeMembers, false, false},
		{"shards get a second member", addShardMembers, false, false},
		{"members of shards are lost, one with its volumes", loseShardMembers, false, false},
		{"all pods with members of shards restart one by one", rollingUpdate, false, false},
		{"shards with members are added and removed", reshardMembers, false, false},
		{"the hosts of a data center with members lose power in turn", losePower, false, false},
		{"shards have one member again", removeShardMembers, false, false},
		{"another version of the operator restarts nothing", upgradeOperator, true, true},
	} {
		if testing.Short() && !disturbance.short {
			continue
		}
		if !u.Run(disturbance.what, func(t *testing.T) { underLoad(in(t, u.Namespace), disturbance.do, disturbance.errorFree) }) {
			return
		}
	}
}

// underLoad calls do while clients load the store through the Services of all data centers and through a sidecar. When the store is
// ready again, the clients stop and check their histories.
func underLoad(u user, do func(user), errorFree bool) {
	loads := []string{"load", "load-injected"}
	zone := u.appZone()
	u.Apply(kube.LoadPod(loads[0], "", zone, "--endpoint=north=rings-north:6379, --endpoint=east=rings-east:6379, --endpoint=south=rings-south:6379, --sessions=12"))
	u.applyInjected(loads[1], kube.LoadPod(loads[1], "north", zone, "--endpoint=pod=rings:6379, --sessions=12, --session=endpoint"))
	for _, name := range loads {
		u.Await(name+" to run", func() string { return u.LoadProblem(name) })
	}
	do(u)
	u.awaitReady()
	for _, name := range loads {
		if why := u.LoadProblem(name); why != "" {
			u.Errorf("%s ended too early: %s", name, why)
		}
		u.StopLoad(name)
	}
	for _, name := range loads {
		if report := u.LoadReport(name); errorFree && !strings.Contains(report, " 0 failed, 0 of unknown outcome") {
			u.Errorf("operations of %s failed or have an unknown outcome", name)
		}
	}
	u.awaitEqualSizes()
	if !u.Failed() { // a failed load's pod keeps its history
		u.Kubectl("delete", "pod", loads[0], loads[1], "--wait")
	}
}

// applyInjected creates a pod that must have a sidecar, through which all its connections are one session. If the webhook does not
// answer in time, the pod gets none, and is created again.
func (u user) applyInjected(name, manifest string) {
	u.Helper()
	u.Await(name+" to get a sidecar", func() string {
		u.Apply(manifest)
		if of := u.Kubectl("get", "pod", name, "-o", `jsonpath={.metadata.annotations.causalstore\.io/injected}`); of != "" {
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
		out, err := u.Try("", "get", "pod", name, "-o", `jsonpath={.metadata.uid} {.status.conditions[?(@.type=="Ready")].status}`)
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
	class := strings.Fields(u.Kubectl("get", "pvc", "-l", shards, "-o", "jsonpath={.items[*].spec.storageClassName}"))[0]
	if u.Kubectl("get", "storageclass", class, "-o", "jsonpath={.allowVolumeExpansion}") != "true" {
		u.Logf("not tested: storage class %s does not allow expansion", class)
		return
	}
	before := u.pods()
	u.Apply(grown(u.sample()))
	u.AwaitOutput("2Gi 2Gi 2Gi 2Gi 2Gi 2Gi", "get", "pvc", "-l", shards, "-o", "jsonpath={.items[*].status.capacity.storage}")
	u.awaitReady()
	if after := u.pods(); after != before {
		u.Errorf("expanding volumes replaced pods: before %s, after %s", before, after)
	}
}

// grown returns the sample with larger volumes.
func grown(sample string) string {
	return strings.Replace(sample, "\n    volume: {size: 1Gi}\n", "\n    volume: {size: 2Gi}\n", 1)
}

// upgradeOperator installs an operator of another image, lets it carry out a change, and checks that no pod of the store is replaced.
func upgradeOperator(u user) {
	operator := in(u.T, kube.OperatorNamespace)
	before := u.pods()
	operator.Helm("upgrade", "causalstore", "charts/causalstore", "--reuse-values", "--set", kube.ImageValues(kube.ImageNext), "--wait", "--timeout", kube.Patience.String())
	u.Kubectl("patch", "causalstore", "rings", "--type=merge", "--patch", `{"spec":{"access":{"namespaces":{"matchLabels":{"team":"shop"}}}}}`)
	u.AwaitOutput("shop", "get", "networkpolicy", "rings-front", "-o", "jsonpath={.spec.ingress[*].from[*].namespaceSelector.matchLabels.team}")
	operator.AwaitOutput(kube.ImageNext, "get", "pods", "-o", "jsonpath={.items[0].spec.containers[0].image}")
	u.awaitReady()
	if after := u.pods(); after != before {
		u.Errorf("the upgrade replaced pods: before %s, after %s", before, after)
	}
}
