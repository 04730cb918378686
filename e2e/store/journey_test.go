//go:build e2e

package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const operatorNamespace = "causalstore-system"

// journey is the life of one store. Its steps come one after the other, and none is of use without those before.
type journey struct {
	began time.Time
}

func TestAStoreOnARealClusterFromHelmInstallToItsDeletion(t *testing.T) {
	j := &journey{began: time.Now()}
	shop := user{t, "shop"}
	t.Cleanup(func() {
		if t.Failed() { // what is left is needed to see what went wrong
			t.Logf("to begin again: kubectl delete causalstore -n %[1]s rings; kubectl delete namespace %[1]s; helm uninstall -n %[2]s causalstore", shop.namespace, operatorNamespace)
		}
	})
	for _, step := range []struct {
		name string
		do   func(user)
	}{
		{"Helm installs the operator", j.install},
		{"helm test finds the installation in order", j.testInstallation},
		{"bad manifests are refused with what to do", j.refuse},
		{"the sample becomes ready", j.create},
		{"helm test writes to the store, and reads in every data centre", j.testStore},
		{"a stock client is served by the store's Service", j.useService},
		{"a stock client in a labelled namespace has a sidecar", j.useSidecar},
		{"histories stay causal whatever happens", j.disturb},
		{"deletion keeps volumes, and a store of the same name has its data", j.deleteAndComeBack},
		{"deletion with policy Delete leaves nothing", j.deleteAll},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(user{t, shop.namespace}) }) {
			t.FailNow()
		}
	}
}

func (j *journey) install(u user) {
	operator := user{u.T, operatorNamespace}
	operator.helm("install", "causalstore", "charts/causalstore", "--create-namespace", "--set", "region=local", "--set", image(imageStore),
		"--wait", "--timeout", patience.String())
	u.Logf("the operator is ready %.1f s after helm install was called", time.Since(j.began).Seconds())
	operator.await("an event that says which operator works", func() string {
		out, err := operator.try("", "get", "events", "--field-selector=reason=LeaderElection", "-o", "name")
		if err != nil || out == "" {
			return "there is none: " + out
		}
		return ""
	})
	u.kubectl("create", "namespace", u.namespace)
}

func (j *journey) testInstallation(u user) { u.helmTest("CRD", "operator", "leader", "webhook") }

func (j *journey) testStore(u user) {
	operator := user{u.T, operatorNamespace}
	operator.helm("upgrade", "causalstore", "charts/causalstore", "--reuse-values", "--set", "test.store="+u.namespace+"/rings", "--wait",
		"--timeout", patience.String())
	u.helmTest("CRD", "operator", "leader", "webhook", "store")
}

// helmTest runs the test of the chart, which has to say of each of some things that it is well.
func (u user) helmTest(things ...string) {
	u.Helper()
	operator := user{u.T, operatorNamespace}
	said := operator.helm("test", "causalstore", "--logs", "--timeout", patience.String())
	for _, thing := range things {
		if !strings.Contains(said, "ok    "+thing+":") {
			u.Errorf("helm test does not say that %s is well:\n%s", thing, said)
		}
	}
	u.Log(said)
	operator.kubectl("delete", "pod", "causalstore-test", "--wait")
}

// image sets that of the chart.
func image(name string) string {
	i := strings.LastIndex(name, ":")
	return "image.repository=" + name[:i] + ",image.tag=" + name[i+1:]
}

func (j *journey) refuse(u user) {
	sample := u.sample()
	zones := u.zones()
	for _, bad := range []struct{ what, is, instead, said string }{
		{"a zone that is front and back", "backend: [" + zones[1] + "]", "backend: [" + zones[0] + "]", "is in both frontend and backend"},
		{"a data centre in no ring", "  - {name: ring-south, dataCenters: [south]}\n", "", "add it to the dataCenters of exactly one ring"},
		{"more than one replica", "engine: Redis\n", "engine: Redis\n    replicas: 2\n", "more than 1 needs chain replication"},
		{"an engine that is not there", "engine: Redis\n", "engine: Cassandra\n", "is not there yet; give Redis or Embedded"},
		{"a long name", "  name: rings\n", "  name: a-name-that-is-too-long\n", "give a shorter name"},
	} {
		manifest := strings.Replace(sample, bad.is, bad.instead, 1)
		if manifest == sample {
			u.Fatalf("%s: the sample has no %q", bad.what, bad.is)
		}
		out, err := u.try(manifest, "apply", "-f", "-")
		if err == nil || !strings.Contains(out, bad.said) {
			u.Errorf("%s: kubectl says %q (%v); it should say %q", bad.what, out, err, bad.said)
		}
	}
}

func (j *journey) create(u user) {
	applied := time.Now()
	u.apply(u.sample())
	u.ready()
	u.Logf("the store is ready %.1f s after it was applied, %.1f s after helm install was called", time.Since(applied).Seconds(), time.Since(j.began).Seconds())
	if rings := u.kubectl("get", "causalstore", "rings", "-o", "jsonpath={.status.summary.rings} {.status.summary.dataCenters}"); rings != "3/3 3/3" {
		u.Errorf("rings and data centres that are ready: %s", rings)
	}
	// Every pod is where its data centre's zones say.
	for _, pod := range strings.Split(u.kubectl("get", "pods", "-l", "app.kubernetes.io/instance=rings", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName} {.metadata.labels.causalstore\.io/data-center} {.metadata.labels.app\.kubernetes\.io/component}{"\n"}{end}`), "\n") {
		j.inItsZone(u, strings.Fields(pod))
	}
}

func (j *journey) inItsZone(u user, pod []string) {
	u.Helper()
	if len(pod) != 4 {
		u.Fatalf("a pod without a label: %q", pod)
	}
	zone := u.kubectl("get", "node", pod[1], "-o", `jsonpath={.metadata.labels.topology\.kubernetes\.io/zone}`)
	kind := "frontend"
	if pod[3] == "shard" {
		kind = "backend"
	}
	want := u.kubectl("get", "causalstore", "rings", "-o", fmt.Sprintf(`jsonpath={.spec.dataCenters[?(@.name=="%s")].zones.%s[0]}`, pod[2], kind))
	if zone != want {
		u.Errorf("%s is in %s, not in %s", pod[0], zone, want)
	}
}

// ready waits until the store is, for its newest spec.
func (u user) ready() {
	u.Helper()
	u.await("the store to be ready", func() string {
		out, err := u.try("", "get", "causalstore", "rings", "-o",
			`jsonpath={.metadata.generation} {.status.observedGeneration} {.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Progressing")].status}`)
		is := strings.Fields(out)
		if err == nil && len(is) == 4 && is[0] == is[1] && is[2] == "True" && is[3] == "False" {
			return ""
		}
		return out
	})
}

func (j *journey) useService(u user) {
	u.startApp("app", "")
	// Written at the store's own name; read in every data centre, once it is there.
	if out := u.redis("app", "rings", "SET", "greeting", "hello"); out != "OK" {
		u.Fatal(out)
	}
	for _, dc := range []string{"north", "east", "south"} {
		u.awaitPrinted("hello", "exec", "app", "--", "redis-cli", "-h", "rings-"+dc, "GET", "greeting")
	}
}

// startApp starts a pod with a shell and redis-cli.
func (u user) startApp(name, dataCenter string) {
	u.Helper()
	u.apply(pod(name, dataCenter, container{"main", imageApp, `command: [sleep, "86400"]`}))
	u.kubectl("wait", "--for=condition=Ready", "pod/"+name, "--timeout="+patience.String())
}

// redis runs redis-cli in an app.
func (u user) redis(app, host string, args ...string) string {
	u.Helper()
	return u.kubectl(append([]string{"exec", app, "-c", "main", "--", "redis-cli", "-h", host}, args...)...)
}

func (j *journey) useSidecar(u user) {
	u.kubectl("label", "namespace", u.namespace, "causalstore.io/inject=rings", "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
	u.startApp("nowhere", "")
	if why := u.kubectl("get", "pod", "nowhere", "-o", `jsonpath={.metadata.annotations.causalstore\.io/not-injected}`); !strings.Contains(why, "name one in annotation") {
		u.Errorf("a pod that may belong to any of three data centres: %q", why)
	}
	u.kubectl("delete", "pod", "nowhere", "--wait=false")
	u.startApp("injected", "east")
	if names := u.kubectl("get", "pod", "injected", "-o", "jsonpath={.spec.initContainers[*].name}"); names == "" {
		u.Fatalf("the pod has no sidecar\n%s", u.everything())
	}
	// The store's name leads to the sidecar, on a loopback address.
	if host := u.kubectl("exec", "injected", "-c", "main", "--", "grep", "rings", "/etc/hosts"); !strings.HasPrefix(host, "127.") {
		u.Errorf("the store's name leads to %q", host)
	}
	if out := u.redis("injected", "rings", "SET", "from", "sidecar"); out != "OK" {
		u.Fatal(out)
	}
	u.awaitPrinted("sidecar", "exec", "app", "--", "redis-cli", "-h", "rings", "GET", "from")
}

func (j *journey) deleteAndComeBack(u user) {
	claims := func() string { return u.kubectl("get", "pvc", "-o", "jsonpath={.items[*].spec.volumeName}") }
	before := claims()
	if len(strings.Fields(before)) != 9 {
		u.Errorf("a log and two shards in each of three data centres have volumes: %s", before)
	}
	u.redis("app", "rings", "SET", "kept", "yes")
	for _, dc := range []string{"north", "east", "south"} {
		u.awaitPrinted("yes", "exec", "app", "--", "redis-cli", "-h", "rings-"+dc, "GET", "kept")
	}
	u.kubectl("delete", "causalstore", "rings", "--timeout="+patience.String())
	u.awaitPrinted("", "get", "statefulsets,services,pods", "-l", "app.kubernetes.io/instance=rings", "-o", "name")
	if after := claims(); after != before {
		u.Errorf("volumes before: %s, after deletion: %s", before, after)
	}
	u.apply(grown(u.sample()))
	u.ready()
	for _, dc := range []string{"north", "east", "south"} {
		u.awaitPrinted("yes", "exec", "app", "--", "redis-cli", "-h", "rings-"+dc, "GET", "kept")
	}
}

func (j *journey) deleteAll(u user) {
	u.kubectl("patch", "causalstore", "rings", "--type=merge", "--patch", `{"spec":{"deletionPolicy":"Delete"}}`)
	u.ready()
	u.kubectl("delete", "causalstore", "rings", "--timeout="+patience.String())
	u.awaitPrinted("", "get", "all,pvc,secrets,configmaps,networkpolicies,poddisruptionbudgets", "-l", "app.kubernetes.io/instance=rings", "-o", "name")
	operator := user{u.T, operatorNamespace}
	operator.helm("uninstall", "causalstore", "--wait")
	operator.kubectl("get", "crd", "causalstores.causalstore.io") // it stays
}
