//go:build e2e

package store_test

import (
	"fmt"
	"strings"
)

// container is one of a pod: its name, its image, and what it runs.
type container struct{ name, image, run string }

// pod is the manifest of a pod that PodSecurity's level "restricted" lets in. If its namespace has sidecars, it uses that of a data
// centre; no name is none. Its containers see each other's processes.
func pod(name, dataCenter string, containers ...container) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: v1
kind: Pod
metadata:
  name: %s
  annotations: {causalstore.io/data-center: %q}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 2
  shareProcessNamespace: true
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
`, name, dataCenter)
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

// stopper ends the load beside it when it is told to: there is nothing in the image of the load that can send a signal.
var stopper = container{"stop", imageApp, `command: [sh, -c, 'until [ -e /tmp/stop ]; do sleep 1; done;
      for p in /proc/[0-9]*; do case "$(cat $p/cmdline)" in "/causalstoreload"*) kill -INT "${p#/proc/}";; esac; done']`}

// loadPod is a pod that loads endpoints until it is told to stop, and checks then what it saw.
func loadPod(name, dataCenter, endpoints string) string {
	const forever = "8h"
	return pod(name, dataCenter, container{"main", imageStore, fmt.Sprintf(
		"command: [/causalstore, load, %s, --duration=%s, --rate=200, --keys=200, --timeout=10s, --check]", endpoints, forever)}, stopper)
}
