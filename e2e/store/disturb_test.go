//go:build e2e

package store_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// disturb does to the store what happens to every store, while it is in use.
func (j *journey) disturb(u user) {
	for _, disturbance := range []struct {
		what string
		do   func(user)
		// spotless: not one operation may fail for it.
		spotless bool
	}{
		{"a cache, a coordinator and a shard are deleted", deletePods, false},
		{"the operator is away", stopOperator, false},
		{"all pods restart, one after the other", rollingUpdate, false},
		{"volumes grow", growVolumes, false},
		{"shards come and go", reshard, false},
		{"coordinators come and go", regroup, true},
		{"another version of the operator restarts nothing", upgradeOperator, true},
	} {
		if !u.Run(disturbance.what, func(t *testing.T) { underLoad(user{t, u.namespace}, disturbance.do, disturbance.spotless) }) {
			return
		}
	}
}

// underLoad does something while there is load, through the Services of all data centres and through one pod's sidecar. The load
// lasts until the store is ready again; then it checks what it saw.
func underLoad(u user, do func(user), spotless bool) {
	loads := []string{"load", "load-injected"}
	u.apply(loadPod(loads[0], "", "--endpoint=north=rings-north:6379, --endpoint=east=rings-east:6379, --endpoint=south=rings-south:6379, --sessions=12"))
	u.applyInjected(loads[1], loadPod(loads[1], "north", "--endpoint=pod=rings:6379, --sessions=4, --session=endpoint"))
	for _, name := range loads {
		u.await(name+" to run", func() string { return u.notLoading(name) })
	}
	do(u)
	u.ready()
	for _, name := range loads {
		if why := u.notLoading(name); why != "" {
			u.Errorf("%s ended before what it was to see: %s", name, why)
		}
		u.kubectl("exec", name, "-c", "stop", "--", "sh", "-c", ": > /tmp/stop")
	}
	for _, name := range loads {
		if said := u.verdict(name); spotless && !strings.Contains(said, " 0 failed, 0 of unknown outcome") {
			u.Errorf("operations of %s have failed, or their outcome is not known", name)
		}
	}
	u.sameSize()
	if !u.Failed() { // they have the history that was found wrong
		u.kubectl("delete", "pod", loads[0], loads[1], "--wait")
	}
}

// applyInjected makes a pod that has to have a sidecar: all its connections are one session. A webhook that does not answer in
// time lets a pod be made without one, whose connections are a session each then; so it is made again.
func (u user) applyInjected(name, manifest string) {
	u.Helper()
	u.await(name+" to get a sidecar", func() string {
		u.apply(manifest)
		if of := u.kubectl("get", "pod", name, "-o", `jsonpath={.metadata.annotations.causalstore\.io/injected}`); of != "" {
			return ""
		}
		why := u.kubectl("get", "pod", name, "-o", `jsonpath={.metadata.annotations.causalstore\.io/not-injected}`)
		u.kubectl("delete", "pod", name, "--wait")
		return "it has none: " + why
	})
}

// notLoading says why a load does not run, or nothing if it does.
func (u user) notLoading(name string) string {
	u.Helper()
	out, err := u.try("", "get", "pod", name, "-o", `jsonpath={.status.containerStatuses[?(@.name=="main")].state}`)
	if err != nil || !strings.Contains(out, `"running"`) {
		return "it is " + out
	}
	return ""
}

var operations = regexp.MustCompile(`(?m)^(\d+) operations in`)

// verdict of a load that was told to stop, and what it has said.
func (u user) verdict(name string) string {
	u.Helper()
	phase := ""
	u.await(name+" to end", func() string {
		phase = u.kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}")
		if phase == "Succeeded" || phase == "Failed" {
			return ""
		}
		return phase
	})
	said := u.kubectl("logs", name, "-c", "main")
	u.Logf("%s:\n%s", name, said)
	if phase != "Succeeded" {
		u.Errorf("%s found the history wrong, or could not go on", name)
	}
	if m := operations.FindStringSubmatch(said); m == nil || m[1] == "0" {
		u.Errorf("%s has done nothing", name)
	}
	if !strings.Contains(said, "causal+") {
		u.Errorf("%s does not say that the history is causal", name)
	}
	return said
}

func deletePods(u user) {
	for _, p := range []string{"rings-north-cache-0", "rings-east-cc-0", "rings-south-shard-1-0"} {
		was := u.kubectl("get", "pod", p, "-o", "jsonpath={.metadata.uid}")
		u.kubectl("delete", "pod", p, "--wait=false")
		u.anew(p, was)
	}
}

// anew waits until a pod of the same name is ready.
func (u user) anew(name, was string) {
	u.Helper()
	u.await(name+" to come back", func() string {
		out, err := u.try("", "get", "pod", name, "-o", `jsonpath={.metadata.uid} {.status.conditions[?(@.type=="Ready")].status}`)
		if is := strings.Fields(out); err == nil && len(is) == 2 && is[0] != was && is[1] == "True" {
			return ""
		}
		return out
	})
}

func stopOperator(u user) {
	operator := user{u.T, operatorNamespace}
	operator.kubectl("scale", "deployment/causalstore", "--replicas=0")
	operator.awaitPrinted("", "get", "pods", "-o", "name")
	// Pods that die meanwhile come back, and pods of apps are made.
	was := u.kubectl("get", "pod", "rings-north-shard-0-0", "-o", "jsonpath={.metadata.uid}")
	u.kubectl("delete", "pod", "rings-north-shard-0-0", "--wait=false")
	u.startApp("without-operator", "east")
	u.anew("rings-north-shard-0-0", was)
	u.kubectl("delete", "pod", "without-operator")
	operator.kubectl("scale", "deployment/causalstore", "--replicas=2")
	operator.kubectl("rollout", "status", "deployment/causalstore", "--timeout="+patience.String())
}

// rollingUpdate waits until no pod is of before.
func rollingUpdate(u user) {
	before := strings.Fields(u.pods())
	u.kubectl("annotate", "causalstore", "rings", "causalstore.io/restart="+before[0], "--overwrite")
	u.await("all pods to be new", func() string {
		var old []string
		for _, uid := range strings.Fields(u.pods()) {
			if slices.Contains(before, uid) {
				old = append(old, uid)
			}
		}
		return strings.Join(old, " ")
	})
}

// pods of the store, by uid.
func (u user) pods() string {
	u.Helper()
	return u.kubectl("get", "pods", "-l", "app.kubernetes.io/instance=rings", "-o", "jsonpath={.items[*].metadata.uid}")
}

// growVolumes lets those of the shards grow, as far as their storage class does.
func growVolumes(u user) {
	const ofShards = "app.kubernetes.io/instance=rings,app.kubernetes.io/component=shard"
	class := strings.Fields(u.kubectl("get", "pvc", "-l", ofShards, "-o", "jsonpath={.items[*].spec.storageClassName}"))[0]
	if u.kubectl("get", "storageclass", class, "-o", "jsonpath={.allowVolumeExpansion}") != "true" {
		u.Logf("not tried: storage class %s does not let volumes grow", class)
		return
	}
	before := u.pods()
	u.apply(grown(u.sample()))
	u.awaitPrinted("2Gi 2Gi 2Gi 2Gi 2Gi 2Gi", "get", "pvc", "-l", ofShards, "-o", "jsonpath={.items[*].status.capacity.storage}")
	u.ready()
	if after := u.pods(); after != before {
		u.Errorf("pods before the volumes grew: %s; after: %s", before, after)
	}
}

// grown is the sample with more room for data.
func grown(sample string) string {
	return strings.Replace(sample, "\n    volume: {size: 1Gi}\n", "\n    volume: {size: 2Gi}\n", 1)
}

// upgradeOperator: an operator from another image carries out a change, and no pod of the store is another.
func upgradeOperator(u user) {
	operator := user{u.T, operatorNamespace}
	before := u.pods()
	operator.helm("upgrade", "causalstore", "charts/causalstore", "--reuse-values", "--set", image(imageNext), "--wait", "--timeout", patience.String())
	u.kubectl("patch", "causalstore", "rings", "--type=merge", "--patch", `{"spec":{"access":{"namespaces":{"matchLabels":{"team":"shop"}}}}}`)
	u.awaitPrinted("shop", "get", "networkpolicy", "rings-front", "-o", "jsonpath={.spec.ingress[*].from[*].namespaceSelector.matchLabels.team}")
	operator.awaitPrinted(imageNext, "get", "pods", "-o", "jsonpath={.items[0].spec.containers[0].image}")
	u.ready()
	if after := u.pods(); after != before {
		u.Errorf("pods before the upgrade: %s; after: %s", before, after)
	}
}
