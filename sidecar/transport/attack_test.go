package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// attacker has a certificate that was issued to it, and says what it likes.
type attacker struct {
	t                 *testing.T
	cert              tls.Certificate
	incarnation, next uint64
	epoch             uint64
	manifest          wire.Manifest
}

func newAttacker(t *testing.T, ca *authority.Authority, id contract.Identity) *attacker {
	t.Helper()
	k := newKeys(t, id, ca)
	cert, err := tls.LoadX509KeyPair(k.Cert, k.Key)
	if err != nil {
		t.Fatal(err)
	}
	return &attacker{t: t, cert: cert, incarnation: rand.Uint64()}
}

// link opens a link as a node, and returns the stream with why it was refused.
func (a *attacker) link(addr string, nodes ...topology.Node) (grpc.ClientStream, error) {
	a.t.Helper()
	creds := credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{a.cert}, InsecureSkipVerify: true})
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{})))
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	a.t.Cleanup(cancel)
	s, err := conn.NewStream(ctx, &serviceDesc.Streams[0], wire.Method)
	if err != nil {
		return nil, err
	}
	a.next++
	_ = s.SendMsg(&wire.Hello{Protocol: wire.Protocol, MinProtocol: wire.MinProtocol, Process: "attacker",
		Incarnation: a.incarnation, Link: a.next, Nodes: nodes, Manifest: a.manifest, TopologyEpoch: a.epoch})
	return s, s.RecvMsg(&receivedFrame{})
}

// forbiddenMessages are what a sidecar with a certificate of its own tries to send to a coordinator.
func forbiddenMessages(own, victim topology.Node) map[Violation][]causal.Message {
	far := causal.Dep{Version: causal.Version{HLC: 5, Origin: 60_000}}
	return map[Violation][]causal.Message{
		ViolationSender: {
			causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"}.Message(topology.Node{Part: topology.Sidecar, Index: 78},
				victim),
			causal.Vectors{Entries: []causal.VectorEntry{{Origin: 1, SV: 1 << 40}}}.Message(
				topology.Node{Part: topology.Coordinator, DC: 1}, victim),
		},
		ViolationKind: {
			causal.Vectors{Entries: []causal.VectorEntry{{Origin: 1, SV: 1 << 40}}}.Message(own, victim),
			causal.PutAck{Versions: []causal.Version{{HLC: 5, Origin: 1}}}.Message(own, victim),
			causal.Term{Join: true}.Message(own, victim),
		},
		ViolationContent: {
			causal.LogGet{Version: causal.Version{HLC: 5, Origin: 40}}.Message(own, victim),
		},
		ViolationField: {
			causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k", Deps: []causal.Dep{far}}.Message(own, victim),
			causal.Put{ID: 1, Session: 1, Seq: causal.MaxCounter + 1, Key: "k"}.Message(own, victim),
			causal.LogGet{Version: causal.Version{Origin: 1}}.Message(own, victim),
		},
	}
}

func TestForgedMessagesCostTheLinkAndAreNotHandled(t *testing.T) {
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	a := newAttacker(t, ca, idOf(sidecarA))
	total := 0
	for violation, messages := range forbiddenMessages(sidecarA, coordinatorA) {
		for i, m := range messages {
			s, err := a.link(c.addr, sidecarA)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.SendMsg(frameOf(m)); err != nil {
				t.Fatal(err)
			}
			if err := s.RecvMsg(&receivedFrame{hello: &wire.Hello{}}); status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s from %v: the link ends with %v", m.Kind, m.From, err)
			}
			total++
			if n := violationCount(c, violation); n != uint64(i+1) {
				t.Errorf("%s from %v: %d violations of its kind are counted", m.Kind, m.From, n)
			}
		}
	}
	same(t, "handled", c.all(), nil)
	for violation := range forbiddenMessages(sidecarA, coordinatorA) { // one kind does not hide another
		if n := strings.Count(c.log.String(), "violation="+violation.String()+" "); n != 1 {
			t.Errorf("of %d violations of one peer, those of the kind %s were logged %d times", total, violation, n)
		}
	}
}

// A slot indexes the owners of slots: one that does not exist has ended the process.
func TestADependencyOnASlotThatDoesNotExistCostsTheLink(t *testing.T) {
	ca := newAuthority(t, "eu")
	shard := topology.Node{Part: topology.Middleman}
	mm := startWith(t, newDirectory(), shard, newKeys(t, idOf(shard), ca))
	a := newAttacker(t, ca, idOf(sidecarA))
	for i, slot := range []topology.Slot{topology.Slots, topology.Slots + 1, 1<<16 - 1} {
		s, err := a.link(mm.addr, sidecarA)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.SendMsg(frameOf(causal.DepCheck{Version: causal.Version{HLC: 5, Origin: 1},
			Slot: slot}.Message(sidecarA, shard)))
		if err := s.RecvMsg(&receivedFrame{hello: &wire.Hello{}}); status.Code(err) != codes.PermissionDenied ||
			!strings.Contains(err.Error(), "impossible value of Seq") {
			t.Errorf("slot %d: the link ends with %v", slot, err)
		}
		if n := violationCount(mm, ViolationField); n != uint64(i+1) {
			t.Errorf("slot %d: %d violations are counted", slot, n)
		}
	}
	same(t, "handled", mm.all(), nil)
}

func TestAFrameThatCannotBeDecodedCostsTheLinkAndIsCounted(t *testing.T) {
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	s, err := newAttacker(t, ca, idOf(sidecarA)).link(c.addr, sidecarA)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.SendMsg(&frame{batch: wire.Batch{Buf: []byte("no frame")}})
	if err := s.RecvMsg(&receivedFrame{hello: &wire.Hello{}}); status.Code(err) != codes.Internal {
		t.Errorf("the link ends with %v", err)
	}
	// gRPC ends the link itself, before the process hears of it.
	waitFor(t, "the violation to be counted", func() bool { return violationCount(c, ViolationField) == 1 })
}

// What judges a message has changed nothing yet.
func TestAPanicBeforeTheHandlerCostsTheLinkAndNotTheProcess(t *testing.T) {
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	c.Close() // nothing of it runs any longer, so its topology can be replaced
	put := causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k"}.Message(sidecarA, coordinatorA)
	var calls int
	healthy := c.config.Topology
	c.config.Topology = func() *topology.Topology {
		if calls++; calls == 2 {
			panic("a bug")
		}
		return healthy()
	}
	admitted, violation := c.admit([]causal.Message{put, put, put}, &wire.Hello{Nodes: []topology.Node{sidecarA}},
		"attacker")
	if len(admitted) != 1 || status.Code(violation) != codes.InvalidArgument || violationCount(c, ViolationField) != 1 {
		t.Errorf("%d messages admitted, violation %v", len(admitted), violation)
	}
	if log := c.log.String(); !strings.Contains(log, "a bug") || !strings.Contains(log, "attack_test.go") {
		t.Errorf("the log does not say what and where: %s", log)
	}
}

// Whoever has taken over a region has the certificate of its leader.
func TestALeaderThatSpeaksForAnotherDataCenterLosesTheLink(t *testing.T) {
	ca, leaderB := newAuthority(t, "eu"), topology.Node{Part: topology.Coordinator, DC: 1}
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	a := newAttacker(t, ca, idOf(leaderB))
	ofB, ofC := []causal.VectorEntry{{Origin: 17, Last: 32, SV: 5}}, []causal.VectorEntry{{Origin: 33, Last: 48, SV: 5}}
	for i, m := range []causal.Message{
		causal.Vectors{Entries: ofC}.Message(leaderB, coordinatorA),
		causal.Vectors{Entries: append(ofB, ofC...)}.Message(leaderB, coordinatorA),
		causal.SignedVectors{DC: 1, Entries: ofC}.Message(leaderB, coordinatorA),
	} {
		s, err := a.link(c.addr, leaderB.WithMember(1))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SendMsg(frameOf(m)); err != nil {
			t.Fatal(err)
		}
		if err := s.RecvMsg(&receivedFrame{hello: &wire.Hello{}}); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: the link ends with %v", m.Kind, err)
		}
		if n := violationCount(c, ViolationContent); n != uint64(i+1) {
			t.Errorf("%s: %d violations are counted", m.Kind, n)
		}
	}
	same(t, "handled", c.all(), nil)
	if n := strings.Count(c.log.String(), "link refused"); n != 1 {
		t.Errorf("the violations are logged %d times", n)
	}
	s, err := a.link(c.addr, leaderB.WithMember(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(frameOf(causal.Vectors{Entries: ofB}.Message(leaderB, coordinatorA))); err != nil {
		t.Fatal(err)
	}
	c.wait(t, 1)
}

func TestACertificateSpeaksForItsNodeOnly(t *testing.T) {
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	second := topology.Node{Part: topology.Coordinator, Index: 1}
	for name, try := range map[string]struct {
		id    contract.Identity
		nodes []topology.Node
	}{
		"a sidecar as a coordinator": {idOf(sidecarA), []topology.Node{second}},
		"a coordinator as another one": {idOf(topology.Node{Part: topology.Coordinator, DC: 1, Index: 1}),
			[]topology.Node{second}},
		"a sidecar of another data center": {idOf(sidecarA),
			[]topology.Node{{Part: topology.Sidecar, DC: 1, Index: 5}}},
		"a middleman with a sidecar beside": {idOf(middlemanB), []topology.Node{middlemanB, sidecarA}},
		"nobody":                            {idOf(middlemanB), nil},
		"an edge": {contract.Identity{TrustDomain: "eu", StoreID: "s", DataCenter: "a",
			Role: contract.RoleEdge, Member: "0"}, []topology.Node{sidecarA}},
		"a data center that does not exist": {idOf(sidecarA), []topology.Node{{Part: topology.Sidecar, DC: 9}}},
		"a coordinator with a foreign index": {idOf(topology.Node{Part: topology.Coordinator, Index: 17}),
			[]topology.Node{{Part: topology.Coordinator, Index: 17}}},
	} {
		before := violationCount(c, ViolationIdentity)
		if _, err := newAttacker(t, ca, try.id).link(c.addr, try.nodes...); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", name, err)
		}
		if n := violationCount(c, ViolationIdentity); n != before+1 {
			t.Errorf("%s: %d violations", name, n-before)
		}
	}
	other := idOf(sidecarA)
	other.StoreID = "other"
	if _, err := newAttacker(t, ca, other).link(c.addr, sidecarA); err == nil {
		t.Error("a certificate of another store is accepted")
	}
}

// Behind an edge all peers have one address, so each is known by its identity.
func TestViolationsOfEachIdentityAreLogged(t *testing.T) {
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	for _, n := range []topology.Node{middlemanB, {Part: topology.Coordinator, DC: 1}} {
		a := newAttacker(t, ca, idOf(n))
		for range 3 {
			if _, err := a.link(c.addr, sidecarA); status.Code(err) != codes.PermissionDenied {
				t.Errorf("%v: %v", n, err)
			}
		}
		if got := strings.Count(c.log.String(), "peer="+idOf(n).String()+" "); got != 1 {
			t.Errorf("%v is logged %d times: %s", n, got, c.log)
		}
	}
}

// The authority of one region must not make parts of another one.
func TestTheAuthorityOfAnotherRegionIsNotBelieved(t *testing.T) {
	eu, us := newAuthority(t, "eu"), newAuthority(t, "us")
	k := newKeys(t, idOf(coordinatorA), eu)
	k.trust(t, us, eu) // the bundles of both regions are known; all data centers are those of eu
	c := startWith(t, newDirectory(), coordinatorA, k)
	foreign := idOf(sidecarA)
	foreign.TrustDomain = "us"
	if _, err := newAttacker(t, us, foreign).link(c.addr, sidecarA); err == nil {
		t.Error("a part of another region is accepted")
	}
	if n := violationCount(c, ViolationCertificate); n == 0 {
		t.Error("it is not counted")
	}
}

func TestOnlyTheSameIdentityReplacesALink(t *testing.T) {
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	blog := idOf(sidecarA)
	blog.Member = "blog"
	if _, err := newAttacker(t, ca, idOf(sidecarA)).link(c.addr, sidecarA); err != nil {
		t.Fatal(err)
	}
	if _, err := newAttacker(t, ca, blog).link(c.addr, sidecarA); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the sidecar of another app takes the link over: %v", err)
	}
	if _, err := newAttacker(t, ca, idOf(sidecarA)).link(c.addr, sidecarA); err != nil {
		t.Errorf("the same identity: %v", err)
	}
}

func TestOneIdentityCannotTakeAllLinks(t *testing.T) {
	const quota = 5
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca), func(c *Config, _ *timings) {
		c.MaxLinks, c.MaxLinksPerIdentity = 3*quota, quota
	})
	flood := func(app string) (accepted int) {
		id := idOf(sidecarA)
		id.Member = app
		a := newAttacker(t, ca, id)
		for i := range uint64(2 * quota) {
			if _, err := a.link(c.addr, topology.Node{Part: topology.Sidecar,
				Index: uint64(len(app))<<32 + i}); err == nil {
				accepted++
			}
		}
		return accepted
	}
	for i, app := range []string{"a", "bb", "ccc"} {
		if n := flood(app); n != quota {
			t.Errorf("app %d has got %d links", i, n)
		}
	}
	if n := violationCount(c, ViolationLimit); n < 3*quota { // clients dial again
		t.Errorf("%d refusals are counted", n)
	}
	if n := flood("dddd"); n != 0 {
		t.Errorf("a fourth app has got %d links, above the limit of all", n)
	}
	if _, err := newAttacker(t, ca, idOf(middlemanB)).link(c.addr, middlemanB.WithMember(1)); err != nil {
		t.Errorf("the sidecars have taken the link of a middleman: %v", err)
	}
	if got := fmt.Sprint(len(c.Stats().Links)); got != fmt.Sprint(3*quota+1) {
		t.Errorf("%s links", got)
	}
}

// The authority of a region can make certificates for any index.
func TestAPartThatTheTopologyDoesNotHaveGetsNoLink(t *testing.T) {
	ca := newAuthority(t, "eu")
	top := testTopology(t)
	later := *top
	later.Epoch = 5
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca), func(c *Config, _ *timings) {
		c.Topology = func() *topology.Topology { return &later }
	})
	dc := top.DCs[1]
	violations := 0
	for _, n := range []topology.Node{
		{Part: topology.Coordinator, DC: 1, Index: uint64(dc.Coordinators), Member: 1},
		{Part: topology.Coordinator, DC: 1, Index: 9, Member: 1}, {Part: topology.Coordinator, DC: 1, Member: 2},
		{Part: topology.Middleman, DC: 1, Index: uint64(dc.Shards), Member: 1},
		{Part: topology.Middleman, DC: 1, Index: 60_000, Member: 1},
		{Part: topology.Cache, DC: 1, Index: uint64(dc.Caches)},
	} {
		a := newAttacker(t, ca, idOf(n.Group()))
		for epoch, want := range map[uint64]codes.Code{4: codes.FailedPrecondition, 5: codes.PermissionDenied,
			6: codes.OK} {
			a.epoch = epoch
			if _, err := a.link(c.addr, n); status.Code(err) != want {
				t.Errorf("%v with topology epoch %d: %v; want %s", n, epoch, err, want)
			}
			if want == codes.PermissionDenied {
				violations++
			}
			if got := violationCount(c, ViolationIdentity); got != uint64(violations) {
				t.Errorf("%v with topology epoch %d: %d violations; want %d", n, epoch, got, violations)
			}
		}
	}
	a := newAttacker(t, ca, idOf(topology.Node{Part: topology.Middleman, DC: 1}))
	if _, err := a.link(c.addr, topology.Node{Part: topology.Middleman, DC: 1, Member: 1}); err != nil {
		t.Errorf("a part that there is: %v", err)
	}
}
