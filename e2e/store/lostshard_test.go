//go:build e2e

package store_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/causalstore/causalstore/e2e/kube"
)

// loseShard deletes the pods of both members of a shard at once, with the volumes of their data and logs. Nobody can
// have what was in them any more, so the shard starts over by itself, and gets its data from another ring. Events of
// the store say so, and `kubectl causal status` how far it is.
func loseShard(u user) {
	const copied, keys = 300, 20_000 // so many that somebody can look while they are copied
	members := []string{"rings-north-shard-0-0", "rings-north-s0-m2-0"}
	program := kube.BuildProgram(u.T)
	u.redisScript("app", fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo SET refilled:$i v$i; i=$((i+1)); done", keys),
		"-h", "rings-east", "--pipe")
	u.AwaitOutput("1", "exec", "app", "-c", "main", "--", "redis-cli", "-h", "rings-east", "CAUSAL", "WAIT",
		"all", "5000")
	var claims []string
	for _, m := range members {
		claims = append(claims, "data-"+m, "log-"+m)
	}
	before := u.volumesOf(claims)
	u.Kubectl("delete", "events", "--field-selector="+ofLoss)

	lost := time.Now()
	u.Kubectl(append([]string{"delete", "pvc", "--wait=false"}, claims...)...)
	u.Kubectl(append([]string{"delete", "pod", "--wait=false", "--grace-period=0", "--force"}, members...)...)
	u.awaitRefill(program, lost, members)
	u.awaitReplicated()
	u.Logf("the shard has both members again %.1f s after they were deleted", time.Since(lost).Seconds())

	for _, v := range u.volumesOf(claims) {
		if slices.Contains(before, v) {
			u.Errorf("volume %s was not replaced: before %s", v, before)
		}
	}
	if out := u.redis("app", "rings-north", "DBSIZE"); atoi(out) < keys+copied {
		u.Errorf("ring-north has %s keys, want at least %d", out, keys+copied)
	}
	u.assertKeys("copied", copied, "after the loss of all members of a shard")
}

// ofLoss selects the events of the store about parts that have lost data.
const ofLoss = "involvedObject.kind=CausalStore,reason=DataLost"

// awaitRefill waits until a shard that has lost its data at some time, with these members, has it again, and until the
// store is ready. It shows what `kubectl causal status` says meanwhile. Events, which remain, must have said that data
// was lost.
func (u user) awaitRefill(program string, lost time.Time, members []string) {
	u.Helper()
	last, again := "", false
	u.Await("the shard to have its data again", func() string {
		status, err := kube.Output(exec.CommandContext(u.Context(), program, "kubectl", "status", "rings",
			"--namespace", u.Namespace), "")
		if err != nil {
			u.Fatalf("kubectl causal status: %v\n%s", err, status)
		}
		for line := range strings.Lines(status) {
			if _, said, ok := strings.Cut(strings.TrimSpace(line), "data lost: "); ok && said != last {
				last = said
				u.Logf("after %.1f s kubectl causal status says: %s", time.Since(lost).Seconds(), said)
			}
		}
		for _, m := range members {
			// A container that has not started has no log.
			log, err := u.Try("", "logs", "--all-containers", m)
			if err == nil && !again && strings.Contains(log, "the storage has its data again, from other rings") {
				again = true
				u.Logf("after %.1f s %s has the data again", time.Since(lost).Seconds(), m)
			}
		}
		if !again {
			return "the log of no member says so\n" + status
		}
		return ""
	})
	u.awaitReady()
	if said := u.Kubectl("get", "events", "--field-selector="+ofLoss, "-o",
		"jsonpath={.items[*].message}"); !strings.Contains(said,
		"the storage is without data that it had acknowledged") {
		u.Errorf("no event of the store says that a shard has lost its data: %q", said)
	}
	status, err := kube.Output(exec.CommandContext(u.Context(), program, "kubectl", "status", "rings", "--namespace",
		u.Namespace), "")
	if err != nil || strings.Contains(status, "data lost") {
		u.Errorf("kubectl causal status of a store that is ready (%v):\n%s", err, status)
	}
}

// volumesOf returns the names of the volumes of claims.
func (u user) volumesOf(claims []string) []string {
	u.Helper()
	all := strings.Fields(u.Kubectl(append([]string{"get", "pvc", "-o", "jsonpath={.items[*].spec.volumeName}"},
		claims...)...))
	if len(all) != len(claims) {
		u.Fatalf("claims %s have volumes %s", claims, all)
	}
	return all
}

// atoi returns the number that redis-cli has printed, or -1 if it is none.
func atoi(out string) int {
	n, err := strconv.Atoi(out)
	if err != nil {
		return -1
	}
	return n
}
