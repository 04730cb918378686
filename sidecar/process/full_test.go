package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/capture"
	"github.com/causalstore/causalstore/lab/ports"
	"github.com/causalstore/causalstore/lab/redisserver"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/redis"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

// peer is a process that speaks to one part under test, as a coordinator would.
type peer struct {
	net, reads       *transport.GRPC // of a coordinator, and of a sidecar
	self, reader, to topology.Node
	addr             string // its own
	slots            topology.MapID
	mu               sync.Mutex
	acked            map[causal.Version]bool
	replies          map[uint64]causal.GetReply
	lastReply        uint64
}

func newPeer(t *testing.T, addr string) *peer {
	t.Helper()
	c, err := contract.ParseConfig([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	topo, err := c.Topology.Topology()
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{self: topology.Node{Part: topology.Coordinator}, reader: topology.Node{Part: topology.Sidecar, Index: 1},
		to:    topology.Node{DC: 1, Part: topology.Middleman},
		acked: map[causal.Version]bool{}, replies: map[uint64]causal.GetReply{}}
	p.slots = topo.Map(topo.RingOf(p.to.DC))
	for _, link := range []struct {
		net  **transport.GRPC
		node topology.Node
	}{{&p.net, p.self}, {&p.reads, p.reader}} {
		n := link.node
		if n.HasGroup() {
			n = n.WithMember(1)
		}
		*link.net, err = transport.NewGRPC(transport.Config{Process: "peer", Nodes: []topology.Node{n},
			Handler: p.handle,
			Members: topo.MembersOf, Resolve: func(n topology.Node) (string, bool) {
				return addr,
					n == p.to.WithMember(1)
			}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*link.net).Close() })
	}
	p.net.SetLeadership(causal.Leadership{Epoch: 1, Life: 1})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.addr = l.Addr().String()
	go func() { _ = p.net.Serve(l) }() // until Close
	return p
}

// configure makes the part under test listen at an address and reach the peer as the coordinator of us.
func (p *peer) configure(c *contract.Config, listen string) {
	c.Listen.GRPC = listen
	us := c.Addresses["us"]
	us.Coordinators = []string{p.addr}
	c.Addresses["us"] = us
}

func (p *peer) handle(batch []causal.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range batch {
		switch m := &batch[i]; m.Kind {
		case causal.KindPutAck:
			for _, v := range m.PutAck().Versions {
				p.acked[v] = true
			}
		case causal.KindGetReply:
			p.replies[m.GetReply().ID] = m.GetReply()
		}
	}
}

func (p *peer) put(key, value string, at time.Time) causal.Version {
	v := causal.Version{HLC: causal.HLCAt(at.UnixMilli()), Origin: 1}
	p.net.Send(causal.PutAfter{Key: key, Map: p.slots,
		Record: causal.Record{Version: v, Value: causal.Value{Data: []byte(value)}}}.Message(p.self, p.to))
	return v
}

func (p *peer) hasAck(v causal.Version) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acked[v]
}

// get reads a key; ok is false until there is a reply.
func (p *peer) get(t *testing.T, key string) (r causal.GetReply) {
	t.Helper()
	await(t, "a reply", func() bool {
		p.mu.Lock()
		p.lastReply++
		id := p.lastReply
		p.mu.Unlock()
		p.reads.Send(causal.Get{ID: id, Key: key}.Message(p.reader, p.to))
		for range 50 {
			time.Sleep(10 * time.Millisecond)
			p.mu.Lock()
			got, ok := p.replies[id]
			p.mu.Unlock()
			if ok {
				r = got
				return true
			}
		}
		return false
	})
	return r
}

// keyOfFirstShard is a key whose slot the first shard of data center eu owns.
func keyOfFirstShard(t *testing.T) string {
	t.Helper()
	set := mustLoad(t, good, topology.Middleman)
	for i := range 1000 {
		key := fmt.Sprint("key", i)
		if set.Topology.Owner(set.Topology.RingOf(1), topology.SlotOf(key)).Index == 0 {
			return key
		}
	}
	t.Fatal("no key found")
	return ""
}

func readiness(addr string) (status int, r contract.Readiness) {
	status, body := fetch(addr, "/readyz")
	_ = json.Unmarshal([]byte(body), &r) // empty until the process serves
	return status, r
}

// metricOf returns the value of the first series with a name, and 0 if there is none.
func metricOf(addr, name string) (value float64) {
	_, body := fetch(addr, "/metrics")
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ") {
			fields := strings.Fields(line)
			_, _ = fmt.Sscan(fields[len(fields)-1], &value)
			return value
		}
	}
	return 0
}

func startRedis(t *testing.T) (*redisserver.Server, *goredis.Client) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server in PATH: apt-get install redis-server")
	}
	server, err := redisserver.Start(t.Context(), redisserver.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	admin := goredis.NewClient(&goredis.Options{Network: "unix", Addr: server.Socket})
	t.Cleanup(func() { _ = admin.Close(); server.Kill() })
	return server, admin
}

// markUsed makes a storage look as after an earlier start, so that the middleman does not ask all coordinators whether
// it is new, and of which nobody can remember more.
func markUsed(t *testing.T, s storage.Store, err error) {
	t.Helper()
	if err == nil {
		err = errors.Join(s.SetMeta(t.Context(), "incarnation", []byte{1}),
			node.AcceptOldCopy(t.Context(), s), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAMiddlemanWhoseRedisIsFullSaysSoAndContinuesWhenThereIsRoom(t *testing.T) {
	server, admin := startRedis(t)
	used, err := redis.Open(t.Context(), redis.Options{Socket: server.Socket})
	markUsed(t, used, err)
	grpc := ports.ForTest(t)
	p := newPeer(t, grpc)
	log := &capture.Buffer{}
	addr, ended, stop := runLogged(t, good, topology.Middleman, log, func(c *contract.Config) {
		p.configure(c, grpc)
		c.Storage.Redis = contract.RedisStorage{Socket: server.Socket}
	})
	await(t, "the middleman to be ready", func() bool { status, _ := readiness(addr); return status == http.StatusOK })
	if err := admin.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	key := keyOfFirstShard(t)
	at := time.Now()
	v := p.put(key, "v", at)
	await(t, "the report that the storage is full", func() bool {
		p.put(key, "v", at) // the first message may have met a link that was not open yet
		status, r := readiness(addr)
		return status == http.StatusServiceUnavailable && r.State == contract.StateStorageFull
	})
	await(t, "failures to be counted", func() bool {
		return metricOf(addr, "causalstore_middleman_storage_errors_total") >= 5
	})
	if n := strings.Count(log.String(), "level=ERROR"); n == 0 || n > 3 {
		t.Errorf("%d lines of the log are errors, want one in ten seconds", n)
	}
	if p.hasAck(v) {
		t.Error("a write that the storage has refused was acknowledged")
	}
	if err := admin.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	await(t, "the write to be acknowledged", func() bool { return p.hasAck(v) })
	await(t, "the middleman to be ready again", func() bool {
		status, r := readiness(addr)
		return status == http.StatusOK && r.State == ""
	})
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestAMiddlemanThatStartsOnAFullRedisWaits(t *testing.T) {
	server, admin := startRedis(t)
	used, err := redis.Open(t.Context(), redis.Options{Socket: server.Socket})
	markUsed(t, used, err)
	if err := admin.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	addr, ended, stop := run(t, good, topology.Middleman, func(c *contract.Config) {
		c.Storage.Redis = contract.RedisStorage{Socket: server.Socket}
	})
	await(t, "the reason why it waits", func() bool {
		_, r := readiness(addr)
		return r.State == contract.StateStorageFull
	})
	if err := admin.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	await(t, "the middleman to be ready", func() bool { status, _ := readiness(addr); return status == http.StatusOK })
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}
