package processes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/e2e/etcdserver"
)

// earlierProgram names a causalstore of an earlier version: its processes and those of this version make one
// deployment.
const earlierProgram = "CAUSALSTORE_EARLIER"

// A deployment of an earlier version is upgraded process by process under load, in the documented order and in the
// opposite one. No operation fails, no peer is taken for an offender, and nothing acknowledged is lost. The coordinator
// and the shard of a have two members each.
func TestAnEarlierVersionIsUpgradedUnderLoad(t *testing.T) {
	earlier := os.Getenv(earlierProgram)
	if earlier == "" {
		t.Skip(earlierProgram + " names no program of an earlier version")
	}
	order := []string{"middleman", "coordinator", "cache", "sidecar"}
	opposite := slices.Clone(order)
	slices.Reverse(opposite)
	t.Run("in the documented order", func(t *testing.T) { upgrade(t, earlier, order) })
	t.Run("in the opposite order", func(t *testing.T) { upgrade(t, earlier, opposite) })
}

// With scope DataCenter, the homes and the sidecars of an earlier version, which may not know of operations that homes
// execute, are upgraded one by one while clients count at all of them. What is answered is what one Redis in each data
// center would answer.
func TestTheSidecarsOfADataCenterAreOneRedisWhileAnEarlierVersionIsUpgraded(t *testing.T) {
	earlier := os.Getenv(earlierProgram)
	if earlier == "" {
		t.Skip(earlierProgram + " names no program of an earlier version")
	}
	order := []string{"a-coordinator", "c-coordinator", "a-sidecar", "c-sidecar-2", "a-sidecar-2", "c-sidecar"}
	opposite := slices.Clone(order)
	slices.Reverse(opposite)
	for name, order := range map[string][]string{"homes first": order, "sidecars first": opposite} {
		t.Run(name, func(t *testing.T) {
			d := planDeployment(t, nil, oneRedis)
			d.addSidecar("a")
			d.addSidecar("c")
			for _, p := range d.procs {
				p.program = earlier
			}
			d.startAll()
			l := d.startOneRedis()
			for _, name := range order {
				l.more(t, 100)
				d.stop(name)
				d.procs[name].program = ""
				d.restart(name)
				d.checkViolations()
			}
			l.more(t, 200)
			hashes := d.hashesVia("a-sidecar-2")
			for _, name := range d.olderParts() {
				hashes.check(t, d.olderParts())
				d.stop(name)
				d.procs[name].program = ""
				d.restart(name)
			}
			hashes.check(t, nil)
			for _, sidecar := range []string{"a-sidecar", "a-sidecar-2", "c-sidecar"} {
				hashes.checkFound(t, sidecar)
			}
			hashes.checkUnreadable(t, "b-sidecar")
			// Numbers of several data centers are registers at some sidecars, and sums at others.
			l.judgeWithout(t, func(key string) bool { return strings.Contains(key, ":n:all:") })
		})
	}
}

func upgrade(t *testing.T, earlier string, order []string) {
	certs := newCertificates(t)
	ours := certs.authority("ours", "example")
	certs.issueAll(ours)
	certs.trust(ours)
	server := certs.issue(ours, "a", "etcd", "0")
	etcd := etcdserver.Start(t, "--cert-file", server+".crt", "--key-file", server+".key", "--client-cert-auth",
		"--trusted-ca-file", filepath.Join(ours, "authority.crt"))
	d := planDeployment(t, certs, waitLong)
	d.addMember("a", etcd.Endpoint)
	d.config.Register = nil
	d.addShardMember("a")
	d.seenFrom = func(dc, part string, c *contract.Config) {
		if dc == "a" && (part == "middleman" || part == "coordinator") {
			c.Register = &contract.Register{Etcd: &contract.EtcdRegister{Endpoints: []string{etcd.Endpoint}}}
		}
	}
	d.addSidecar("a")
	for _, p := range d.procs {
		p.program = earlier
	}
	d.procs["a-sidecar-2"].program = ""
	d.startAll()
	d.awaitWholeGroup(t, "a", "middleman")
	d.awaitWholeGroup(t, "a", "coordinator")
	var done atomic.Uint64
	endTraffic := func() {}
	defer func() { endTraffic() }()
	for _, dc := range []string{"b", "c"} {
		end, before := d.traffic(dc, &done), endTraffic
		endTraffic = sync.OnceFunc(func() { end(); before() })
	}
	hashes := d.hashesVia("a-sidecar-2")
	writer := d.startWriter("b")
	d.awaitProgress(&done)
	for _, part := range order {
		for _, name := range []string{"a-" + part, "a-" + part + "-2", "b-" + part, "c-" + part} {
			p := d.procs[name]
			if p == nil || part == "sidecar" && name != "a-sidecar" {
				continue // the clients would lose their sessions
			}
			began := time.Now()
			d.stop(name)
			p.program = ""
			d.restart(name)
			if (part == "middleman" || part == "coordinator") && name[0] == 'a' {
				d.awaitWholeGroup(t, "a", part)
			}
			d.awaitProgress(&done)
			hashes.check(t, d.olderParts())
			d.checkViolations()
			t.Logf("%s was upgraded in %v", name, time.Since(began))
			if t.Failed() {
				return
			}
		}
	}
	for _, dc := range []string{"b", "c"} {
		hashes.checkUnreadable(t, dc+"-sidecar")
	}
	acknowledged := writer.stop()
	for _, dc := range []string{"a", "b", "c"} {
		c := d.client(dc)
		eventually(t, fmt.Sprintf("%d acknowledged writes in %s", len(acknowledged), dc), func() error {
			return missing(t.Context(), c, acknowledged)
		})
	}
	awaitComplete(t, d.client("a"))
	endTraffic()
	for _, dc := range []string{"a", "b", "c"} {
		name := dc + "-sidecar"
		if p := d.procs[name]; p.program != "" {
			d.stop(name)
			p.program = ""
			d.restart(name)
		}
		hashes.checkFound(t, name)
	}
}
