//go:build e2e

package store_test

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/causalstore/causalstore/e2e/kube"
)

// lossKeys is how many keys are written before a volume is lost; both shards have some of them.
const lossKeys = 20

// smallStore is a store of two rings, which is small because the other one still runs.
const smallStore = `apiVersion: causalstore.io/v1alpha1
kind: CausalStore
metadata: {name: rings}
spec:
  placement: SingleZone
  deletionPolicy: Delete
  storage: {engine: Redis, image: %q, volume: {size: 1Gi}}
  dataCenters:
  - {name: north, region: local, coordinators: {replicas: 1, volume: {size: 1Gi}}, caches: {replicas: 1, memory: 64Mi}, shards: 2}
  - {name: south, region: local, coordinators: {replicas: 1, volume: {size: 1Gi}}, caches: {replicas: 1, memory: 64Mi}, shards: 2}
  rings:
  - {name: ring-north, dataCenters: [north]}
  - {name: ring-south, dataCenters: [south]}
`

// loseAVolume deletes the claim of a shard and its pod, in a small store of its own. Until the shard has its data back
// from the other ring, its keys are answered by that one or not at all; then it serves again, with everything in its
// storage.
func (j *journey) loseAVolume(u user) {
	const lost, claim = "rings-north-shard-0-0", "data-rings-north-shard-0-0"
	u.Kubectl("create", "namespace", "loss")
	loss := in(u.T, "loss")
	loss.Apply(fmt.Sprintf(smallStore, kube.ImageRedis))
	loss.awaitReady()
	loss.startApp("app", "")
	var writes strings.Builder
	for i := range lossKeys {
		fmt.Fprintf(&writes, "SET key:%d value-%d\n", i, i)
	}
	writes.WriteString("CAUSAL WAIT all 60000\n")
	if replies := loss.converse("rings-north", writes.String()); len(replies) != lossKeys+1 ||
		strings.Join(replies[:lossKeys], "") != strings.Repeat("OK", lossKeys) || replies[lossKeys] != "(integer) 1" {
		loss.Fatalf("writes and WAIT are answered %q", replies)
	}

	uid := loss.Kubectl("get", "pod", lost, "-o", "jsonpath={.metadata.uid}")
	volume := loss.Kubectl("get", "pvc", claim, "-o", "jsonpath={.spec.volumeName}")
	loss.Kubectl("delete", "pvc", claim, "--wait=false")
	loss.Kubectl("delete", "pod", lost, "--wait=false")
	loss.Await("the shard to be replaced", func() string {
		loss.readNeverNil("rings-north")
		if now, err := loss.Try("", "get", "pod", lost, "-o", "jsonpath={.metadata.uid}"); err != nil || now == "" ||
			now == uid {
			return fmt.Sprintf("pod %s has uid %q, as before", lost, now)
		}
		return ""
	})
	loss.Await("the shard to be refilled", func() string {
		loss.readNeverNil("rings-north")
		out, err := loss.Try("", "logs", lost, "--all-containers")
		if err != nil || !strings.Contains(out, "the storage has its data again, from other rings") {
			return fmt.Sprintf("its log does not say so: %v", err)
		}
		return ""
	})
	loss.awaitReady()
	if now := loss.Kubectl("get", "pvc", claim, "-o", "jsonpath={.spec.volumeName}"); now == volume {
		loss.Error("the volume was not replaced")
	}
	// All of it can be read, here and there.
	for _, service := range []string{"rings-north", "rings-south"} {
		loss.Await("all keys through "+service, func() string {
			if n := loss.readNeverNil(service); n < lossKeys {
				return fmt.Sprintf("%d of %d keys are answered", n, lossKeys)
			}
			return ""
		})
	}
	loss.Kubectl("delete", "causalstore", "rings", "--timeout="+kube.Patience.String())
	loss.Kubectl("delete", "namespace", "loss", "--timeout="+kube.Patience.String())
}

// readNeverNil reads all keys and tries to create each, and returns how many were read. A key may have its value, or an
// error; but it must not be missing.
func (u user) readNeverNil(host string) (answered int) {
	u.Helper()
	var commands strings.Builder
	for i := range lossKeys {
		fmt.Fprintf(&commands, "GET key:%d\nSETNX key:%d wrong\n", i, i)
	}
	replies := u.converse(host, commands.String())
	for i := 0; i+1 < len(replies); i += 2 {
		get, setnx := replies[i], replies[i+1]
		switch {
		case get == fmt.Sprintf("%q", fmt.Sprintf("value-%d", i/2)):
			answered++
		case !strings.HasPrefix(get, "(error) "):
			u.Fatalf("GET key:%d through %s is answered %s", i/2, host, get)
		}
		if setnx != "(integer) 0" && !strings.HasPrefix(setnx, "(error) ") {
			u.Fatalf("SETNX key:%d through %s is answered %s", i/2, host, setnx)
		}
	}
	return answered
}

// converse sends commands through one connection and returns the replies, in the notation of redis-cli.
func (u user) converse(host, commands string) []string {
	u.Helper()
	out, err := u.Try(commands, "exec", "-i", "app", "-c", "main", "--", "redis-cli", "--no-raw", "-h", host)
	if err != nil {
		u.Fatalf("redis-cli -h %s: %v\n%s", host, err, out)
	}
	return strings.Split(strings.TrimSpace(tookLong.ReplaceAllString(out, "")), "\n")
}

// tookLong is the line that redis-cli prints after a command that took more than half a second.
var tookLong = regexp.MustCompile(`(?m)^\(\d+\.\d+s\)\n`)
