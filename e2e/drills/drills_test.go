//go:build e2e

package drills_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/e2e/kube"
)

const (
	namespace = "drills"
	storeName = "pairs"
	ofStore   = "app.kubernetes.io/instance=" + storeName
	firstPod  = storeName + "-north-shard-0-0" // of the shard that is killed and fails
)

// drill is an experiment, and how it shows that it is there.
type drill struct {
	name, file string
	// injected waits until the store shows what the experiment does. It is called with the pods of before.
	injected func(user, []pod)
	// replaces is set if pods are replaced, which then have no probe.
	replaces bool
}

// user works with the store.
type user struct{ kube.User }

func TestZonesAndPodsOfAStoreInUseAreTakenAwayAndComeBack(t *testing.T) {
	u := user{kube.User{T: t, Namespace: namespace}}
	u.install()
	if t.Failed() {
		t.FailNow()
	}
	for _, d := range []drill{
		{"a shard loses its pod", "shard-killed.yaml", replaced, true},
		{"a shard does not run", "shard-fails.yaml", doesNotAnswer, false},
		{"AZ-B is cut off", "back-zone-cut-off.yaml", cutOff("zone-b"), false},
		{"AZ-F is cut off", "front-zone-cut-off.yaml", cutOff("zone-a"), false},
	} {
		if !t.Run(d.name, func(t *testing.T) { user{kube.User{T: t, Namespace: namespace}}.run(d) }) {
			return // the state is kept for analysis, if the cluster stays
		}
	}
}

// installOperator installs the operator, and creates the namespace of the user.
func (u user) installOperator() {
	u.Helper()
	operator := u.In(kube.OperatorNamespace)
	operator.Helm("upgrade", "--install", "causalstore", "charts/causalstore", "--create-namespace", "--set",
		"region=local", "--set", "replicas=1",
		"--set", kube.ImageValues(kube.ImageStore), "--set", kube.EtcdImageValues(kube.ImageEtcd), "--wait",
		"--timeout", kube.Patience.String())
	if _, err := u.Try("", "get", "namespace", u.Namespace); err != nil {
		u.Kubectl("create", "namespace", u.Namespace)
	}
}

// install installs the operator, a store, and a program in each pod that tries connections.
func (u user) install() {
	u.installOperator()
	u.Apply(u.manifest("store.yaml"))
	u.AwaitReady(storeName)
	u.addProbes()
	u.Apply(kube.Pod(client, "", "", kube.Container{Name: "main", Image: kube.ImageApp,
		Run: `command: [sleep, "86400"]`}))
	u.Kubectl("wait", "--for=condition=Ready", "pod/"+client, "--timeout="+kube.Patience.String())
}

// manifest reads a manifest, and puts in the cluster's image and zones.
func (u user) manifest(file string) string {
	u.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		u.Fatal(err)
	}
	zones := u.Zones()
	if len(zones) < 4 {
		u.Fatalf("the store needs nodes in four zones; the cluster has %q", zones)
	}
	replace := []string{"REDIS", kube.ImageRedis}
	for i, zone := range zones[:4] {
		replace = append(replace, "["+cluster.Zones[i]+"]", "["+zone+"]")
	}
	return strings.NewReplacer(replace...).Replace(string(text))
}

// run applies an experiment while clients use both data centers, sees what it does, ends it, and sees that it is over.
func (u user) run(d drill) {
	const load = "load"
	before := u.pods()
	u.Apply(
		kube.LoadPod(load, "", "", kube.LoadRate,
			"--endpoint=north=pairs-north:6379, --endpoint=south=pairs-south:6379, --sessions=8"))
	u.Await(load+" to run", func() string { return u.LoadProblem(load) })

	started := time.Now()
	experiment := u.manifest(d.file)
	u.Apply(experiment)
	u.Cleanup(func() { // a failed test leaves nothing cut
		if out, err := u.Try(experiment, "delete", "--ignore-not-found", "--timeout=60s", "-f", "-"); err != nil {
			u.Errorf("the experiment cannot be deleted: %v\n%s", err, out)
		}
	})
	d.injected(u, before)
	u.Logf("injected after %.1f s", time.Since(started).Seconds())
	u.awaitWrite("south", "during "+d.file) // the other data center is not concerned

	started = time.Now()
	if out, err := u.Try(experiment, "delete", "--timeout="+kube.Patience.String(), "-f", "-"); err != nil {
		u.Fatalf("the experiment cannot be deleted: %v\n%s", err, out)
	}
	u.AwaitReady(storeName)
	if d.replaces {
		u.addProbes()
	}
	u.awaitConnections(u.pods(), func(pod, pod) bool { return true })
	u.Logf("healed after %.1f s", time.Since(started).Seconds())
	u.awaitWrite("north", "after "+d.file)
	u.awaitRead("south", "north", "after "+d.file)
	u.awaitRead("north", "south", "during "+d.file)

	if why := u.LoadProblem(load); why != "" {
		u.Errorf("the load ended too early: %s", why)
	}
	u.StopLoad(load)
	u.LoadReport(load) // fails without operations, and if the history is not causal+
	u.awaitEqualSizes()
	u.Kubectl("delete", "pod", load, "--wait")
}
