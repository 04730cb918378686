package transport

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// limitMemory makes a process that is started afterwards believe that it may use so many bytes.
func limitMemory(t *testing.T, bytes int64) {
	t.Helper()
	before := debug.SetMemoryLimit(bytes)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
}

// rawLink is a connection of an attacker that writes HTTP/2 by itself.
type rawLink struct {
	*tls.Conn
	*http2.Framer
}

// dial opens a connection, without a stream.
func (a *attacker) dial(addr string) *rawLink {
	a.t.Helper()
	c, err := tls.Dial("tcp", addr, &tls.Config{Certificates: []tls.Certificate{a.cert}, InsecureSkipVerify: true,
		NextProtos: []string{"h2"}})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { c.Close() })
	r := &rawLink{c, http2.NewFramer(c, c)}
	_, _ = io.WriteString(c, http2.ClientPreface) // the peer may have refused the connection
	_ = r.WriteSettings()
	return r
}

func (r *rawLink) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rawLink opens a link as a node, without waiting for the answer.
func (a *attacker) rawLink(addr string, node topology.Node) *rawLink {
	a.t.Helper()
	r := a.dial(addr)
	r.openStream(a.t, 1)
	a.next++
	hello, err := codec{}.Marshal(&wire.Hello{Protocol: wire.Protocol, MinProtocol: wire.MinProtocol,
		Process: "attacker", Incarnation: a.incarnation, Link: a.next,
		Nodes: []topology.Node{node}, Manifest: a.manifest})
	r.must(a.t, err)
	b := hello.Materialize()
	r.must(a.t, r.WriteData(1, false, append(announce(len(b)), b...)))
	return r
}

func (r *rawLink) openStream(t *testing.T, id uint32) {
	t.Helper()
	r.must(t, r.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.streamHeaders(t),
		EndHeaders: true}))
}

// streamHeaders returns the block of headers of the first stream of a connection.
func (r *rawLink) streamHeaders(t *testing.T) []byte {
	t.Helper()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":path", wire.Method},
		{":authority", "c"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		r.must(t, e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	return block.Bytes()
}

// announce is what precedes a gRPC message.
func announce(size int) []byte { return binary.BigEndian.AppendUint32([]byte{0}, uint32(size)) }

// sendHalf announces a message and sends a part of it, as far as the peer reads.
func (r *rawLink) sendHalf(announced, sent int) {
	part := make([]byte, 16<<10)
	_ = r.SetWriteDeadline(time.Now().Add(2 * time.Second)) // the peer does not read on
	if r.WriteData(1, false, announce(announced)) != nil {
		return
	}
	for ; sent > 0; sent -= len(part) {
		if r.WriteData(1, false, part) != nil {
			return
		}
	}
}

// awaitClosed waits until the peer closes the connection.
func (r *rawLink) awaitClosed(t *testing.T, what string) {
	t.Helper()
	r.must(t, r.SetReadDeadline(time.Now().Add(patience)))
	if _, err := io.Copy(io.Discard, r.Conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: the connection stays", what)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestMessagesThatSidecarsDoNotCompleteTakeABoundedAmountOfMemory(t *testing.T) {
	const mib = 1 << 20
	limitMemory(t, 256*mib)
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	most, before := c.admission.receive.most, heap()
	hostile := newAttacker(t, ca, idOf(sidecarA))
	var links []*rawLink
	for i := range uint64(20) {
		links = append(links, hostile.rawLink(c.addr, topology.Node{Part: topology.Sidecar, Index: i}))
	}
	waitFor(t, "the links", func() bool { return len(c.Stats().Links) == len(links) })
	sent := make(chan struct{})
	for _, l := range links {
		go func() { l.sendHalf(maxFrame-connectionAllowance, 6*mib); sent <- struct{}{} }()
	}
	for range links {
		<-sent
	}
	if grown := heap() - before; grown > most+20*mib {
		t.Errorf("%d MiB are used; an identity may take %d", grown/mib, most/mib)
	}
	other := idOf(sidecarA)
	other.Member = "blog"
	node := topology.Node{Part: topology.Sidecar, Index: 1 << 40}
	s, err := newAttacker(t, ca, other).link(c.addr, node)
	if err != nil {
		t.Fatal(err)
	}
	put := causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k", Value: causal.Value{Data: make([]byte, 2*mib)}}.Message(node,
		coordinatorA)
	if err := s.SendMsg(frameOf(put)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the put of another app", func() bool { return len(c.all()) == 1 })
	for _, l := range links {
		_ = l.NetConn().Close() // what it has not sent does not matter
	}
	waitFor(t, "the memory to be released", func() bool {
		b := c.admission.receive
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.used == 0 && len(b.usedBy) == 0
	})
}

// Parts that are no sidecars have the same: the certificate of one must not take the memory of another.
func TestMessagesThatAPartDoesNotCompleteTakeABoundedAmountOfMemory(t *testing.T) {
	const mib = 1 << 20
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	shard := topology.Node{Part: topology.Middleman, Member: 1}
	hostile, before := newAttacker(t, ca, idOf(shard)), heap()
	var links []*rawLink
	for range 20 {
		links = append(links, hostile.rawLink(c.addr, shard))
	}
	waitFor(t, "the links", func() bool { return len(c.Stats().Links) == len(links) })
	sent := make(chan struct{})
	for _, l := range links {
		go func() { l.sendHalf(maxFrame-connectionAllowance, 6*mib); sent <- struct{}{} }()
	}
	for range links {
		<-sent
	}
	if grown := heap() - before; grown > partFrames*maxFrame+20*mib {
		t.Errorf("%d MiB are used; a part may take %d", grown/mib, partFrames*maxFrame/mib)
	}
	another := topology.Node{Part: topology.Cache} // has a share of its own
	if _, err := newAttacker(t, ca, idOf(another)).link(c.addr, another); err != nil {
		t.Error(err)
	}
	for _, l := range links {
		_ = l.NetConn().Close() // what it has not sent does not matter
	}
	waitFor(t, "the memory to be released", func() bool {
		b := c.admission.parts
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.used == 0 && len(b.usedBy) == 0
	})
}

func TestWhatNoSidecarSendsEndsItsConnection(t *testing.T) {
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	for name, send := range map[string]func(*rawLink) error{
		"a message above the limit": func(r *rawLink) error { return r.WriteData(1, false, announce(maxFrame+1)) },
		"padding": func(r *rawLink) error {
			return r.WriteDataPadded(1, false, announce(10), make([]byte, 9))
		},
		"a second stream": func(r *rawLink) error {
			r.openStream(t, 3)
			return nil
		},
		"data of a second stream": func(r *rawLink) error { return r.WriteData(3, false, announce(10)) },
		"headers that go on": func(r *rawLink) error {
			return r.writeHeaders(1, make([]byte, maxHeaderBytes/2), make([]byte, maxHeaderBytes/2))
		},
	} {
		before := violationCount(c, ViolationLimit)
		r := newAttacker(t, ca, idOf(sidecarA)).rawLink(c.addr, sidecarA)
		r.must(t, send(r))
		r.awaitClosed(t, name)
		if n := violationCount(c, ViolationLimit); n != before+1 {
			t.Errorf("%s: %d violations", name, n-before)
		}
	}
	same(t, "handled", c.all(), nil)
}

// writeHeaders writes the parts of a block of headers that does not end.
func (r *rawLink) writeHeaders(stream uint32, first []byte, others ...[]byte) error {
	err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first})
	for _, part := range others {
		if err == nil {
			err = r.WriteContinuation(stream, false, part)
		}
	}
	return err
}

// One byte of a compressed header names one that came before, which takes a hundred bytes in memory: gRPC keeps them.
func TestManyShortHeadersAreRefused(t *testing.T) {
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	for n, accepted := range map[int]bool{100: true, maxHeaderBytes / 2: false} {
		r := newAttacker(t, ca, idOf(sidecarA)).dial(c.addr)
		block := append(r.streamHeaders(t), bytes.Repeat([]byte{0x80 | 62}, n)...) // the latest one, again
		r.must(t, r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true}))
		r.must(t, r.WriteData(1, true, announce(0))) // no hello, which this part says if it has accepted the stream
		r.must(t, r.SetReadDeadline(time.Now().Add(patience)))
		for kind := http2.FrameSettings; kind != http2.FrameHeaders; {
			f, err := r.ReadFrame()
			r.must(t, err)
			kind = f.Header().Type
			reset, isReset := f.(*http2.RSTStreamFrame)
			if isReset && (accepted || reset.ErrCode != http2.ErrCodeFrameSize) {
				t.Errorf("%d headers: %v", n, reset.ErrCode)
			}
			if isReset {
				break
			}
			if kind == http2.FrameHeaders && !accepted {
				t.Errorf("%d headers were accepted", n)
			}
		}
		r.Conn.Close()
	}
}

// Who opens links without end, or begins them and says nothing, must not fill the disk with the log.
func TestWhatAPeerMakesThisPartLogIsBounded(t *testing.T) {
	const tries = 3 * acceptedLines
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	a := newAttacker(t, ca, idOf(sidecarA))
	for range tries {
		r := a.dial(c.addr)
		r.openStream(t, 1)
		r.must(t, r.WriteRSTStream(1, http2.ErrCodeCancel))
		s, err := a.link(c.addr, sidecarA)
		r.must(t, err)
		r.must(t, s.CloseSend())
	}
	waitFor(t, "the streams without a hello to be refused", func() bool { return c.Stats().Failed >= tries })
	for line, want := range map[string]int{`"link refused"`: 1, `"link accepted"`: acceptedLines} {
		if n := strings.Count(c.log.String(), line); n != want {
			t.Errorf("of %d, %d were logged as %s, want %d", tries, n, line, want)
		}
	}
	c.acceptedLog.flush(time.Now().Add(2*peerLogInterval), c.config.Log)
	if want := fmt.Sprint("suppressed=", tries-acceptedLines-1); !strings.Contains(c.log.String(), want) {
		t.Errorf("the log does not say %s", want)
	}
}

func TestRepliesThatSidecarsDoNotReadTakeABoundedAmountOfMemory(t *testing.T) {
	const mib = 1 << 20
	limitMemory(t, 256*mib)
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	a, before := newAttacker(t, ca, idOf(sidecarA)), heap()
	for i := range uint64(4) { // each may queue 32 MiB
		n := topology.Node{Part: topology.Sidecar, Index: i}
		a.rawLink(c.addr, n)
		waitFor(t, "the link", func() bool { return len(c.Stats().Links) == int(i)+1 })
		for range 32 {
			c.Send(
				causal.LogReply{Record: causal.Record{Value: causal.Value{Data: make([]byte, mib)}}}.Message(
					coordinatorA, n))
		}
	}
	if grown, most := heap()-before, c.admission.send.most; grown > most+20*mib {
		t.Errorf("%d MiB are used; an identity may take %d", grown/mib, most/mib)
	}
	if !slices.ContainsFunc(c.Stats().Drops, func(d DropStats) bool { return d.Reason == DropOverflow }) {
		t.Error("nothing was dropped")
	}
}

func TestHandshakesAreBoundedAndWhoBeginsMostLosesTheOldest(t *testing.T) {
	limitMemory(t, 64<<20)
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	const more = 20
	most := c.admission.limits.handshakes
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	other, err := from.Dial("tcp", c.addr) // of another address, and older than all
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var all []net.Conn
	for range most + more {
		conn, err := net.Dial("tcp", c.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		all = append(all, conn)
	}
	waitFor(t, "the oldest ones to be closed", func() bool { return violationCount(c, ViolationLimit) == more+1 })
	for _, conn := range all[:more+1] {
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a connection that had to make place is open")
		}
	}
	// While all of them wait, somebody who ends a handshake gets its link: it displaces, and is younger than all.
	if _, err := newAttacker(t, ca, idOf(middlemanB)).link(c.addr, middlemanB.WithMember(1)); err != nil {
		t.Errorf("a handshake beside them: %v", err)
	}
	if err := other.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection of an address with one handshake: %v", err)
	}
}

func TestConnectionsWithoutAStreamAreBoundedAndEnd(t *testing.T) {
	const most = 4
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca), func(c *Config, t *timings) {
		c.MaxLinks, c.MaxLinksPerIdentity, t.unused = 3*most, most, 200*time.Millisecond
	})
	a := newAttacker(t, ca, idOf(sidecarA))
	var all []*rawLink
	for range 3 * most {
		r := a.dial(c.addr)
		all = append(all, r)
	}
	waitFor(t, "those beyond the limit to be refused", func() bool {
		return violationCount(c, ViolationLimit) == 3*most-(most+most/4+1)
	})
	for _, r := range all {
		r.awaitClosed(t, "without a stream")
	}
	waitFor(t, "all to be forgotten", func() bool {
		c.admission.mu.Lock()
		defer c.admission.mu.Unlock()
		return len(c.admission.identities) == 0 && c.admission.sidecars == 0 && c.admission.handshakes.Number() == 0
	})
}

func TestLimitsFollowTheMemory(t *testing.T) {
	for memory, want := range map[int64]limits{
		math.MaxInt64: {1 << 14, 1 << 12, 4096, 256 << 20, 256 << 20},
		512 << 20:     {2048, 512, 512, 64 << 20, 64 << 20},
		64 << 20:      {256, 64, 64, 8 << 20, maxFrame},
	} {
		if got := limitsFor(0, 0, memory); got != want {
			t.Errorf("%d MiB: %+v, want %+v", memory>>20, got, want)
		}
	}
	if got := limitsFor(100, 0, 64<<20); got.links != 100 || got.linksPerIdentity != 25 {
		t.Errorf("configured: %+v", got)
	}
}

// What arrives at once with the end of a message is the beginning of the next one. If there is no room for that yet,
// the first one must still be handled, or both would wait until the link is cut.
func TestLargeMessagesOneBehindTheOtherAreHandledOneByOne(t *testing.T) {
	const mib, messages, links = 1 << 20, 3, 3
	limitMemory(t, 256*mib) // of which one identity has a frame
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	a := newAttacker(t, ca, idOf(sidecarA))
	for i := range uint64(links) {
		node := topology.Node{Part: topology.Sidecar, Index: i}
		s, err := a.link(c.addr, node)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for id := range uint64(messages) {
				put := causal.Put{ID: id, Session: 1, Seq: id + 1, Key: "k",
					Value: causal.Value{Data: make([]byte, 15*mib)}}
				_ = s.SendMsg(frameOf(put.Message(node, coordinatorA))) // the other end says what it has got
			}
		}()
	}
	waitFor(t, "all messages", func() bool { return len(c.all()) == links*messages })
	if n := violationCount(c, ViolationLimit); n > 0 {
		t.Errorf("%d violations", n)
	}
	if n := len(c.Stats().Links); n != links {
		t.Errorf("%d links are left", n)
	}
}

// A handler lets puts wait for the disk. What parts that are no sidecars send must be handled meanwhile, since the disk
// may be that of another member, which answers in a frame; and so must what sidecars of others send.
func TestFramesThatWaitDoNotHoldBackThoseOfOthers(t *testing.T) {
	const (
		mib     = 1 << 20
		another = 1 << 40 // the index of the sidecar of another identity
	)
	limitMemory(t, 256*mib)
	ca := newAuthority(t, "eu")
	release := make(chan struct{})
	ended := sync.OnceFunc(func() { close(release) })
	defer ended()
	var waiting atomic.Int64
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca),
		func(config *Config, _ *timings) {
			handle := config.Handler
			config.Handler = func(batch []causal.Message) {
				if from := batch[0].From; from.Part == topology.Sidecar && from.Index < another {
					waiting.Add(1)
					<-release
				}
				handle(batch)
			}
		})
	a := newAttacker(t, ca, idOf(sidecarA))
	put := func(from topology.Node, size int) *frame {
		return frameOf(causal.Put{ID: 1, Session: 1, Seq: 1, Key: "k",
			Value: causal.Value{Data: make([]byte, size)}}.Message(from, coordinatorA))
	}
	links := 0
	for _, size := range []int{400 << 10, 8 << 10, 1 << 10, 10, 10} { // what is smaller fits beside what is larger
		for range 20 {
			links++
			node := topology.Node{Part: topology.Sidecar, Index: uint64(links)}
			s, err := a.link(c.addr, node)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.SendMsg(put(node, size)); err != nil {
				t.Fatal(err)
			}
		}
	}
	waitFor(t, "frames to wait", func() bool { return waiting.Load() > 0 })
	part, err := newAttacker(t, ca, idOf(middlemanB)).link(c.addr, middlemanB.WithMember(1))
	if err != nil {
		t.Fatal(err)
	}
	other := idOf(sidecarA)
	other.Member = "blog"
	node := topology.Node{Part: topology.Sidecar, Index: another}
	quick, err := newAttacker(t, ca, other).link(c.addr, node)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(part.SendMsg(frameOf(answer(middlemanB, coordinatorA, 1))),
		quick.SendMsg(put(node, 600<<10))); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the messages of others", func() bool { return len(c.all()) == 2 })
	ended()
	waitFor(t, "all messages", func() bool { return len(c.all()) == links+2 })
	for name, d := range map[string]*decoding{"sidecars": c.decodingOfSidecars, "parts": c.decodingOfParts} {
		waitFor(t, "the room of "+name+" to be given back", func() bool { // after the handler has returned
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.used == 0 && len(d.usedBy) == 0
		})
	}
}
