//go:build e2e

package store_test

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/e2e/kube"
)

// container is a container of a pod. run is a line of its manifest, such as its command.
type container struct{ name, image, run string }

// pod returns the manifest of a pod that satisfies the pod security level "restricted". In a namespace with sidecars, its sidecar
// belongs to the data center, which may be empty. Its containers share a process namespace. It is not evicted from a node of the test bed
// that reports late because the machine is busy; nobody would create it again. It runs in a zone, or in any if that is empty.
func pod(name, dataCenter, zone string, containers ...container) string {
	var b strings.Builder
	selector := ""
	if zone != "" {
		selector = corev1.LabelTopologyZone + ": " + zone
	}
	fmt.Fprintf(&b, `apiVersion: v1
kind: Pod
metadata:
  name: %s
  annotations: {causalstore.io/data-center: %q}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 2
  tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}, {key: node.kubernetes.io/unreachable, operator: Exists}]
  nodeSelector: {%s}
  shareProcessNamespace: true
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
`, name, dataCenter, selector)
	for _, c := range containers {
		fmt.Fprintf(&b, `  - name: %s
    image: %s
    imagePullPolicy: IfNotPresent
    %s
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`, c.name, c.image, c.run)
	}
	return b.String()
}

// stopper is a container that ends the load beside it on demand. The image of the load has no program that sends signals.
var stopper = container{"stop", kube.ImageApp, `command: [sh, -c, 'until [ -e /tmp/stop ]; do sleep 1; done;
      for p in /proc/[0-9]*; do case "$(cat $p/cmdline)" in "/causalstoreload"*) kill -INT "${p#/proc/}";; esac; done']`}

// loadPod returns the manifest of a pod that loads endpoints until it is stopped, and then checks its history. The load is the last
// container: the kubelet writes /etc/hosts again at the start of each one, and who looks a name up meanwhile may not find the
// sidecar's.
func loadPod(name, dataCenter, zone, endpoints string) string {
	const forever = "8h"
	return pod(name, dataCenter, zone, stopper, container{"main", kube.ImageStore, fmt.Sprintf(
		"command: [/causalstore, load, %s, --duration=%s, --rate=200, --keys=200, --timeout=10s, --check]", endpoints, forever)})
}
