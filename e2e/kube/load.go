package kube

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Container is a container of a pod. Run is a line of its manifest, such as its command.
type Container struct{ Name, Image, Run string }

// Pod returns the manifest of a pod that satisfies the pod security level "restricted". In a namespace with sidecars,
// its sidecar belongs to the data center, which may be empty. Its containers share a process namespace. It is not
// evicted from a node of the test bed that reports late because the machine is busy; nobody would create it again. It
// runs in a zone, or in any if that is empty.
func Pod(name, dataCenter, zone string, containers ...Container) string {
	return pod(name, dataCenter, zone, "", containers)
}

// pod returns the manifest of such a pod with labels, as in "key: value, key: value".
func pod(name, dataCenter, zone, labels string, containers []Container) string {
	var b strings.Builder
	selector := ""
	if zone != "" {
		selector = corev1.LabelTopologyZone + ": " + zone
	}
	fmt.Fprintf(&b, `apiVersion: v1
kind: Pod
metadata:
  name: %s
  labels: {%s}
  annotations: {causalstore.io/data-center: %q}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 2
  tolerations:
  - {key: node.kubernetes.io/not-ready, operator: Exists}
  - {key: node.kubernetes.io/unreachable, operator: Exists}
  nodeSelector: {%s}
  shareProcessNamespace: true
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
`, name, labels, dataCenter, selector)
	for _, c := range containers {
		fmt.Fprintf(&b, `  - name: %s
    image: %s
    imagePullPolicy: IfNotPresent
    %s
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`, c.Name, c.Image, c.Run)
	}
	return b.String()
}

// stopper is a container that ends the load beside it on demand. The image of the load has no program that sends
// signals.
var stopper = Container{"stop", ImageApp, `command: [sh, -c, 'until [ -e /tmp/stop ]; do sleep 1; done;
      for p in /proc/[0-9]*; do case "$(cat $p/cmdline)" in "/causalstoreload"*) kill -INT "${p#/proc/}";; esac; done']`}

// LoadRate is how many operations a second a load sends, unless the machine has no time for that.
const LoadRate = 100

// LoadPod returns the manifest of a pod that loads endpoints at a rate, in operations a second, until it is stopped,
// and then checks its history. If it names no data center it has no sidecar, also in a namespace with sidecars: with
// one, the names of all Services lead to it. The load is the last container: the kubelet writes /etc/hosts again at the
// start of each one, and who looks a name up meanwhile may not find the sidecar's.
func LoadPod(name, dataCenter, zone string, rate int, endpoints string) string {
	const forever = "8h"
	labels := ""
	if dataCenter == "" {
		labels = `causalstore.io/inject: "false"`
	}
	return pod(name, dataCenter, zone, labels, []Container{stopper, {"main", ImageStore, fmt.Sprintf(
		"command: [/causalstore, load, %s, --duration=%s, --rate=%d, --keys=200, --timeout=10s, --check]", endpoints,
		forever, rate)}})
}

// LoadProblem says why a load is not running; it is empty if it is.
func (u User) LoadProblem(name string) string {
	u.Helper()
	out, err := u.Try("", "get", "pod", name, "-o", `jsonpath={.status.containerStatuses[?(@.name=="main")].state}`)
	if err != nil || !strings.Contains(out, `"running"`) {
		return "state " + out
	}
	return ""
}

// StopLoad tells a load to stop.
func (u User) StopLoad(name string) {
	u.Helper()
	u.Kubectl("exec", name, "-c", "stop", "--", "sh", "-c", ": > /tmp/stop")
}

var operations = regexp.MustCompile(`(?m)^(\d+) operations in`)

// LoadReport waits for the end of a stopped load, checks its result, and returns its output.
func (u User) LoadReport(name string) string {
	u.Helper()
	phase := ""
	u.Await(name+" to end", func() string {
		phase = u.Kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}")
		if phase == "Succeeded" || phase == "Failed" {
			return ""
		}
		return phase
	})
	report := u.Kubectl("logs", name, "-c", "main")
	u.Logf("%s:\n%s", name, report)
	if phase != "Succeeded" {
		u.Errorf("%s found a violation or failed", name)
	}
	if m := operations.FindStringSubmatch(report); m == nil || m[1] == "0" {
		u.Errorf("%s did no operation", name)
	}
	if !strings.Contains(report, "causal+") {
		u.Errorf("%s does not report a causal history", name)
	}
	return report
}
