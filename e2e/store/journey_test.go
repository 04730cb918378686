//go:build e2e

package store_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
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
		{"bad manifests are refused with what to do", j.refuse},
		{"the sample becomes ready", j.create},
		{"a stock client is served by the store's Service", j.useService},
		{"a stock client in a labelled namespace has a sidecar", j.useSidecar},
		{"histories stay causal while pods roll, die, and the operator is away", j.disturb},
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
	repository, tag, _ := strings.Cut(imageStore, ":")
	if i := strings.LastIndex(imageStore, ":"); i >= 0 {
		repository, tag = imageStore[:i], imageStore[i+1:]
	}
	operator.helm("install", "causalstore", "charts/causalstore", "--create-namespace", "--set", "region=local", "--set", "image.repository="+repository,
		"--set", "image.tag="+tag, "--wait", "--timeout", patience.String())
	u.Logf("the operator is ready %.1f s after helm install was called", time.Since(j.began).Seconds())
	u.kubectl("create", "namespace", u.namespace)
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
	u.apply(pod(name, imageApp, dataCenter, `command: [sleep, "86400"]`))
	u.kubectl("wait", "--for=condition=Ready", "pod/"+name, "--timeout="+patience.String())
}

// redis runs redis-cli in an app.
func (u user) redis(app, host string, args ...string) string {
	u.Helper()
	return u.kubectl(append([]string{"exec", app, "-c", "main", "--", "redis-cli", "-h", host}, args...)...)
}

// pod is the manifest of a pod that PodSecurity's level "restricted" lets in. If its namespace has sidecars, it uses that of a data
// centre; no name is none.
func pod(name, image, dataCenter, container string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
  annotations: {causalstore.io/data-center: %q}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 2
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: main
    image: %s
    imagePullPolicy: IfNotPresent
    %s
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`, name, dataCenter, image, container)
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

// seconds of load while things happen.
func seconds() time.Duration {
	if s, err := strconv.Atoi(os.Getenv("CAUSALSTORE_E2E_SECONDS")); err == nil && s > 0 {
		return time.Duration(s) * time.Second
	}
	return time.Minute
}

func (j *journey) disturb(u user) {
	for _, disturbance := range []struct {
		what string
		do   func(user)
		load time.Duration
	}{
		{"a cache, a coordinator and a shard are deleted", deletePods, seconds()},
		{"the operator is away", stopOperator, seconds()},
		{"all pods restart, one after the other", rollingUpdate, 3 * seconds()}, // twelve pods
	} {
		if !u.Run(disturbance.what, func(t *testing.T) { underLoad(user{t, u.namespace}, disturbance.do, disturbance.load) }) {
			return
		}
	}
}

// underLoad runs load through the Services of all data centres, which checks what it saw, and the same through one pod's sidecar.
func underLoad(u user, do func(user), duration time.Duration) {
	const common = `, --duration=` + "%s" + `, --rate=200, --keys=200, --timeout=10s, --check`
	args := fmt.Sprintf(common, duration)
	u.apply(pod("load", imageStore, "", `args: [load, --endpoint=north=rings-north:6379, --endpoint=east=rings-east:6379, --endpoint=south=rings-south:6379, --sessions=12`+args+`]`))
	u.apply(pod("load-injected", imageStore, "north", `args: [load, --endpoint=pod=rings:6379, --sessions=4, --session=endpoint`+args+`]`))
	for _, name := range []string{"load", "load-injected"} {
		u.awaitPrinted("Running", "get", "pod", name, "-o", "jsonpath={.status.phase}")
	}
	do(u)
	for _, name := range []string{"load", "load-injected"} {
		if u.kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}") != "Running" {
			u.Logf("%s was over before it was done: give a longer CAUSALSTORE_E2E_SECONDS", name)
		}
	}
	u.ready()
	for _, name := range []string{"load", "load-injected"} {
		u.verdict(name)
	}
	if !u.Failed() { // they have the history that was found wrong
		u.kubectl("delete", "pod", "load", "load-injected", "--wait")
	}
}

var operations = regexp.MustCompile(`(?m)^(\d+) operations in`)

// verdict of a load that has ended.
func (u user) verdict(name string) {
	u.Helper()
	u.await(name+" to end", func() string {
		phase := u.kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}")
		if phase == "Succeeded" || phase == "Failed" {
			return ""
		}
		return phase
	})
	said := u.kubectl("logs", name, "-c", "main")
	u.Logf("%s:\n%s", name, said)
	if phase := u.kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}"); phase != "Succeeded" {
		u.Errorf("%s found the history wrong, or could not go on", name)
	}
	if m := operations.FindStringSubmatch(said); m == nil || m[1] == "0" {
		u.Errorf("%s has done nothing", name)
	}
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
	u.apply(u.sample())
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
