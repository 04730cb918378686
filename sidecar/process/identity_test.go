package process

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/lab/redisserver"
	"github.com/causalstore/causalstore/sidecar/storage/embedded"
	"github.com/causalstore/causalstore/topology"
)

func topologyOf(t *testing.T, text string) *topology.Topology {
	t.Helper()
	topo, err := topology.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

const twoShards = `{epoch: 5, dataCenters: [{name: us}, {name: eu, shards: 2}], rings: [{name: one, dataCenters: [us, eu]}]}`

var (
	coordinatorEU = topology.Node{DC: 1, Part: topology.Coordinator, Member: 1}
	shardEU       = topology.Node{DC: 1, Part: topology.Middleman}
)

func TestACoordinatorAcceptsOnlyItsOwnLog(t *testing.T) {
	dir := t.TempDir()
	before := identityOf(topologyOf(t, twoShards), coordinatorEU)
	if err := before.checkDir(dir); err != nil {
		t.Fatalf("a new folder: %v", err)
	}
	for range 2 {
		if err := before.writeDir(dir); err != nil {
			t.Fatal(err)
		}
		if err := before.checkDir(dir); err != nil {
			t.Fatalf("the same again: %v", err)
		}
	}
	for want, c := range map[string]struct {
		text string
		node topology.Node
	}{
		"":                               {strings.Replace(twoShards, "epoch: 5", "epoch: 6", 1), coordinatorEU},
		"belongs to coordinator 0 of eu": {twoShards, topology.Node{Part: topology.Coordinator}},
		"belongs to member 1 of coordinator 0 of eu, and this is member 2": {twoShards, coordinatorEU.WithMember(2)},
		"topology epoch 5":                   {strings.Replace(twoShards, "epoch: 5", "epoch: 4", 1), coordinatorEU},
		"another topology of the same epoch": {strings.Replace(twoShards, "name: one", "name: uno", 1), coordinatorEU},
		"origin 17": {`{epoch: 6, dataCenters: [{name: eu, shards: 2}, {name: us}],
			rings: [{name: one, dataCenters: [eu, us]}]}`, topology.Node{Part: topology.Coordinator, Member: 1}},
	} {
		err := identityOf(topologyOf(t, c.text), c.node).checkDir(dir)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestAnIdentityWithoutAMemberIsThatOfTheFirst: it was written by a version that has no members, or for a part that had
// one only.
func TestAnIdentityWithoutAMemberIsThatOfTheFirst(t *testing.T) {
	topo := topologyOf(t, twoShards)
	for _, n := range []topology.Node{coordinatorEU.Group(), shardEU} {
		first, second := identityOf(topo, n.WithMember(1)), identityOf(topo, n.WithMember(2))
		if err := first.checkSuccessor(identityOf(topo, n)); err != nil {
			t.Errorf("%s: the first member: %v", n, err)
		}
		if err := identityOf(topo, n).checkSuccessor(first); err != nil {
			t.Errorf("%s: without members again: %v", n, err)
		}
		if err := second.checkSuccessor(identityOf(topo, n)); err == nil {
			t.Errorf("%s: the second member uses it as well", n)
		}
	}
}

// TestARestartSkipsNoCheckOfExclusions: the file of a process may have been changed while it was down.
func TestARestartSkipsNoCheckOfExclusions(t *testing.T) {
	const text = `{epoch: %d, dataCenters: [{name: us%s}, {name: eu}], rings: [{name: one, dataCenters: [us]}, {name: two, dataCenters: [eu]}]}`
	at := func(epoch int, us string) identity {
		return identityOf(topologyOf(t, fmt.Sprintf(text, epoch, us)), coordinatorEU)
	}
	dir := t.TempDir()
	if err := at(1, "").writeDir(dir); err != nil {
		t.Fatal(err)
	}
	if err := at(2, ", exclusions: 1").checkDir(dir); err == nil ||
		!strings.Contains(err.Error(), "to exclude us leaves 1 of 2 rings") {
		t.Errorf("an exclusion while the process was down: %v", err)
	}
	if err := at(2, ", exclusions: 1, forceExclusion: 1").checkDir(dir); err != nil {
		t.Errorf("a forced one: %v", err)
	}
	if err := at(2, ", exclusions: 1").writeDir(dir); err != nil {
		t.Fatal(err)
	}
	if err := at(3, ", exclusions: 1").checkDir(dir); err != nil {
		t.Errorf("an exclusion that the process knows: %v", err)
	}

	// A version that did not judge exclusions has left no word of them, and may have excluded anything.
	old := at(1, "")
	old.Exclusions = nil
	if err := old.writeDir(dir); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, identityFile)); err != nil ||
		strings.Contains(string(b), "exclusions") {
		t.Fatalf("%s %v", b, err)
	}
	if err := at(2, ", exclusions: 1").checkDir(dir); err != nil {
		t.Errorf("an exclusion from before an upgrade: %v", err)
	}
}

func TestAMiddlemanAcceptsOnlyTheStorageOfItsShard(t *testing.T) {
	s, err := embedded.Open(filepath.Join(t.TempDir(), "store"),
		embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	claim := func(text string, n topology.Node) error {
		return identityOf(topologyOf(t, text), n).claimStore(t.Context(), s)
	}
	for range 2 {
		if err := claim(twoShards, shardEU); err != nil {
			t.Fatal(err)
		}
	}
	other := shardEU
	other.Index = 1
	if err := claim(twoShards, other); err == nil || !strings.Contains(err.Error(), "belongs to middleman 0 of eu") {
		t.Errorf("the other shard: %v", err)
	}
	if err := claim(strings.Replace(twoShards, "epoch: 5", "epoch: 6", 1), shardEU); err != nil {
		t.Errorf("a newer epoch: %v", err)
	}
	if err := claim(twoShards, shardEU); err == nil || !strings.Contains(err.Error(), "epoch 6") {
		t.Errorf("back to the older one: %v", err)
	}
}

func TestAMiddlemanWaitsForARedisThatIsNotUpYet(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server in PATH: apt-get install redis-server")
	}
	dir := t.TempDir()
	set := mustLoad(t, strings.Replace(good, `address: "127.0.0.1:6380"`, "socket: "+filepath.Join(dir, "redis.sock"),
		1), topology.Middleman)
	set.Config.DataDir = t.TempDir()
	p := newProcess(Options{Settings: set, Logger: slog.New(slog.DiscardHandler)})
	type opened struct {
		ping, err error
	}
	done := make(chan opened, 1)
	go func() {
		s, err := p.awaitStore(t.Context())
		if err != nil {
			done <- opened{err: err}
			return
		}
		done <- opened{ping: s.Ping(t.Context()), err: s.Close()}
	}()
	await(t, "the middleman to wait", func() bool { return strings.Contains(p.health.readiness().Reason, "waiting: ") })
	server, err := redisserver.Start(t.Context(), redisserver.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	if o := <-done; o.ping != nil || o.err != nil {
		t.Errorf("%+v", o)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	set.Config.Storage.Redis.Socket = filepath.Join(dir, "none.sock")
	if _, err := p.awaitStore(ctx); err == nil {
		t.Error("it opened a server that is not there")
	}
}
