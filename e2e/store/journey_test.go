//go:build e2e

package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/e2e/kube"
)

// journey is the life of one store. Each of its steps needs the ones before.
type journey struct {
	started time.Time
}

func TestAStoreOnARealClusterFromHelmInstallToItsDeletion(t *testing.T) {
	j := &journey{started: time.Now()}
	shop := in(t, "shop")
	t.Cleanup(func() {
		if t.Failed() { // the state is kept for analysis
			t.Logf(
				"to start over: kubectl delete causalstore -n %[1]s rings; kubectl delete namespace %[1]s; helm "+
					"uninstall -n %[2]s causalstore", shop.Namespace, kube.OperatorNamespace)
		}
	})
	for _, step := range []struct {
		name string
		do   func(user)
	}{
		{"Helm installs the operator", j.install},
		{"helm test accepts the installation", j.testInstallation},
		{"bad manifests are refused with advice", j.refuse},
		{"the sample becomes ready", j.create},
		{"helm test writes to the store and reads in every data center", j.testStore},
		{"a stock client uses the store's Service", j.useService},
		{"a stock client in a labelled namespace gets a sidecar", j.useSidecar},
		{"the network admits those who may connect, and nobody else", j.checkNetwork},
		{"histories stay causal under disturbances", j.disturb},
		{"deletion keeps volumes, and a new store of the same name has the data", j.deleteAndComeBack},
		{"a shard that has lost its volume gets its data back from the other ring", j.loseAVolume},
		{"deletion with policy Delete leaves nothing", j.deleteAll},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(in(t, shop.Namespace)) }) {
			t.FailNow()
		}
	}
}

func (j *journey) install(u user) {
	operator := in(u.T, kube.OperatorNamespace)
	operator.Helm("install", "causalstore", "charts/causalstore", "--create-namespace", "--set", "region=local",
		"--set", kube.ImageValues(kube.ImageStore), "--set", kube.EtcdImageValues(kube.ImageEtcd),
		"--wait", "--timeout", kube.Patience.String())
	u.Logf("the operator is ready %.1f s after helm install", time.Since(j.started).Seconds())
	operator.Await("an event about the elected operator", func() string {
		out, err := operator.Try("", "get", "events", "--field-selector=reason=LeaderElection", "-o", "name")
		if err != nil || out == "" {
			return "none: " + out
		}
		return ""
	})
	u.Kubectl("create", "namespace", u.Namespace)
}

func (j *journey) testInstallation(u user) { u.helmTest("CRD", "operator", "leader", "webhook") }

func (j *journey) testStore(u user) {
	operator := in(u.T, kube.OperatorNamespace)
	operator.Helm("upgrade", "causalstore", "charts/causalstore", "--reuse-values", "--set",
		"test.store="+u.Namespace+"/rings", "--wait",
		"--timeout", kube.Patience.String())
	u.helmTest("CRD", "operator", "leader", "webhook", "store")
}

// helmTest runs the test of the chart, which must report each of the checks as passed.
func (u user) helmTest(checks ...string) {
	u.Helper()
	operator := in(u.T, kube.OperatorNamespace)
	report := operator.Helm("test", "causalstore", "--logs", "--timeout", kube.Patience.String())
	for _, check := range checks {
		if !strings.Contains(report, "ok    "+check+":") {
			u.Errorf("helm test does not report %s as passed:\n%s", check, report)
		}
	}
	u.Log(report)
	operator.Kubectl("delete", "pod", "causalstore-test", "--wait")
}

func (j *journey) refuse(u user) {
	sample := u.sample()
	zones := u.Zones()
	for _, bad := range []struct{ what, old, new, message string }{
		{"a zone that is front and back", "backend: [" + zones[1] + "]", "backend: [" + zones[0] + "]",
			"is in both frontend and backend"},
		{"a data center in no ring", "  - {name: ring-south, dataCenters: [south]}\n", "",
			"add it to the dataCenters of exactly one ring"},
		{"too many replicas", "engine: Redis\n", "engine: Redis\n    replicas: 4\n", "a shard has 1 to 3 members"},
		{"an engine that is not there", "engine: Redis\n", "engine: Cassandra\n",
			`supported values: "Redis", "Embedded"`},
		{"a long name", "  name: rings\n", "  name: a-name-that-is-too-long\n", "use a shorter name"},
	} {
		manifest := strings.Replace(sample, bad.old, bad.new, 1)
		if manifest == sample {
			u.Fatalf("%s: the sample does not contain %q", bad.what, bad.old)
		}
		out, err := u.Try(manifest, "apply", "-f", "-")
		if err == nil || !strings.Contains(out, bad.message) {
			u.Errorf("%s: kubectl prints %q (%v), want %q", bad.what, out, err, bad.message)
		}
	}
}

func (j *journey) create(u user) {
	applied := time.Now()
	u.Apply(u.sample())
	u.awaitReady()
	u.Logf("the store is ready %.1f s after kubectl apply, %.1f s after helm install", time.Since(applied).Seconds(),
		time.Since(j.started).Seconds())
	if rings := u.Kubectl("get", "causalstore", "rings", "-o",
		"jsonpath={.status.summary.rings} {.status.summary.dataCenters}"); rings != "3/3 3/3" {
		u.Errorf("ready rings and data centers: %s, want 3/3 3/3", rings)
	}
	// Every pod runs in a zone of its data center.
	for _, pod := range strings.Split(u.Kubectl("get", "pods", "-l", "app.kubernetes.io/instance=rings", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName} {.metadata.labels.causalstore\.io/data-center} {.metadata.labels.app\.kubernetes\.io/component}{"\n"}{end}`), "\n") {
		j.assertZone(u, strings.Fields(pod))
	}
}

func (j *journey) assertZone(u user, pod []string) {
	u.Helper()
	if len(pod) != 4 {
		u.Fatalf("a pod lacks a label or a node: %q", pod)
	}
	zone := u.Kubectl("get", "node", pod[1], "-o", `jsonpath={.metadata.labels.topology\.kubernetes\.io/zone}`)
	kind := "frontend"
	if pod[3] == "shard" {
		kind = "backend"
	}
	want := u.Kubectl("get", "causalstore", "rings", "-o",
		fmt.Sprintf(`jsonpath={.spec.dataCenters[?(@.name=="%s")].zones.%s[0]}`, pod[2], kind))
	if zone != want {
		u.Errorf("%s is in %s, want %s", pod[0], zone, want)
	}
}

func (j *journey) useService(u user) {
	u.startApp("app", "")
	// Written through the store's own name, read in every data center.
	if out := u.redis("app", "rings", "SET", "greeting", "hello"); out != "OK" {
		u.Fatal(out)
	}
	for _, dc := range []string{"north", "east", "south"} {
		u.AwaitOutput("hello", "exec", "app", "--", "redis-cli", "-h", "rings-"+dc, "GET", "greeting")
	}
}

// startApp starts a pod with a shell and redis-cli, and waits until it is ready.
func (u user) startApp(name, dataCenter string) {
	u.Helper()
	u.Apply(kube.Pod(name, dataCenter, u.appZone(),
		kube.Container{Name: "main", Image: kube.ImageApp, Run: `command: [sleep, "86400"]`}))
	u.Kubectl("wait", "--for=condition=Ready", "pod/"+name, "--timeout="+kube.Patience.String())
}

// appZone returns the zone in which apps run. No test stops its node.
func (u user) appZone() string {
	u.Helper()
	return u.Zones()[4]
}

// redis runs redis-cli in the pod of an app.
func (u user) redis(app, host string, args ...string) string {
	u.Helper()
	return u.Kubectl(append([]string{"exec", app, "-c", "main", "--", "redis-cli", "-h", host}, args...)...)
}

// checkDataCenterOfNode checks that the sidecar of a pod that names no data center runs with that of its node's zone.
func (u user) checkDataCenterOfNode(name string) {
	u.Helper()
	node := u.Kubectl("get", "pod", name, "-o", "jsonpath={.spec.nodeName}")
	zone := u.Kubectl("get", "node", node, "-o", `jsonpath={.metadata.labels.topology\.kubernetes\.io/zone}`)
	want := u.Kubectl("get", "causalstore", "rings", "-o", fmt.Sprintf(
		`jsonpath={range .spec.dataCenters[?(@.zones.frontend[0]=="%[1]s")]}{.name}{end}{range .spec.dataCenters[?(@.zones.backend[0]=="%[1]s")]}{.name}{end}`, zone))
	if got := u.Kubectl("get", "pod", name, "-o",
		`jsonpath={.metadata.annotations.causalstore\.io/injected}`); want == "" || got != "rings/"+want {
		u.Errorf("on node %s in zone %s the sidecar is of %q, want data center %q", node, zone, got, want)
	}
	if host := u.Kubectl("exec", name, "-c", "main", "--", "redis-cli", "-h", "rings", "PING"); host != "PONG" {
		u.Errorf("the sidecar answers %q", host)
	}
}

func (j *journey) useSidecar(u user) {
	u.Kubectl("label", "namespace", u.Namespace, "causalstore.io/inject=rings",
		"pod-security.kubernetes.io/enforce=restricted", "--overwrite")
	u.startApp("nowhere", "")
	u.checkDataCenterOfNode("nowhere")
	u.Kubectl("delete", "pod", "nowhere", "--wait=false")
	u.startApp("injected", "east")
	if names := u.Kubectl("get", "pod", "injected", "-o", "jsonpath={.spec.initContainers[*].name}"); names == "" {
		u.Fatalf("the pod has no sidecar\n%s", u.Diagnostics())
	}
	// The store's name resolves to the sidecar, on a loopback address.
	if host := u.Kubectl("exec", "injected", "-c", "main", "--", "grep", "rings",
		"/etc/hosts"); !strings.HasPrefix(host, "127.") {
		u.Errorf("the store's name resolves to %q", host)
	}
	if out := u.redis("injected", "rings", "SET", "from", "sidecar"); out != "OK" {
		u.Fatal(out)
	}
	u.AwaitOutput("sidecar", "exec", "app", "--", "redis-cli", "-h", "rings", "GET", "from")
}

func (j *journey) deleteAndComeBack(u user) {
	// Those of members that have left, of etcds and of the logs of shards are kept as well.
	claims := func() string {
		return u.Kubectl("get", "pvc", "-l",
			"app.kubernetes.io/component in (coordinator,shard),!causalstore.io/member", "-o",
			"jsonpath={.items[*].spec.volumeName}")
	}
	before := claims()
	if len(strings.Fields(before)) < 9 {
		u.Errorf("volumes %s, want at least those of a log and two shards in each of three data centers", before)
	}
	u.redis("app", "rings", "SET", "kept", "yes")
	for _, dc := range []string{"north", "east", "south"} {
		u.AwaitOutput("yes", "exec", "app", "--", "redis-cli", "-h", "rings-"+dc, "GET", "kept")
	}
	again := u.withEtcds(grown(u.sample()))
	u.Kubectl("delete", "causalstore", "rings", "--timeout="+kube.Patience.String())
	u.AwaitOutput("", "get", "statefulsets,services,pods", "-l", "app.kubernetes.io/instance=rings", "-o", "name")
	if after := claims(); after != before {
		u.Errorf("deletion changed the volumes: before %s, after %s", before, after)
	}
	u.Apply(again)
	u.awaitReady()
	for _, dc := range []string{"north", "east", "south"} {
		u.AwaitOutput("yes", "exec", "app", "--", "redis-cli", "-h", "rings-"+dc, "GET", "kept")
	}
}

// withEtcds adds the etcds of the store to its sample: groups that have had several members keep using theirs, also in
// a new store.
func (u user) withEtcds(sample string) string {
	u.Helper()
	parts := strings.SplitAfter(sample, "    region: local\n")
	for i := range parts[1:] {
		etcd := u.Kubectl("get", "causalstore", "rings", "-o", fmt.Sprintf("jsonpath={.spec.dataCenters[%d].etcd}", i))
		if etcd != "" {
			parts[i] += "    etcd: " + etcd + "\n"
		}
	}
	return strings.Join(parts, "")
}

func (j *journey) deleteAll(u user) {
	u.Kubectl("patch", "causalstore", "rings", "--type=merge", "--patch", `{"spec":{"deletionPolicy":"Delete"}}`)
	u.awaitReady()
	u.Kubectl("delete", "causalstore", "rings", "--timeout="+kube.Patience.String())
	u.AwaitOutput("", "get", "all,pvc,secrets,configmaps,networkpolicies,poddisruptionbudgets", "-l",
		"app.kubernetes.io/instance=rings", "-o", "name")
	operator := in(u.T, kube.OperatorNamespace)
	operator.Helm("uninstall", "causalstore", "--wait")
	operator.Kubectl("get", "crd", "causalstores.causalstore.io") // helm keeps CRDs
}
