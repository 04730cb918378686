package register

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/causalstore/causalstore/e2e/etcdserver"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// adminOf returns a client for what users of a register do not do.
func adminOf(t *testing.T, s *etcdserver.Server) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestARegisterWaitsForEtcd(t *testing.T) {
	s := etcdserver.New(t, 1)[0]
	u := connect(t, s)
	if res := u.do(group.RegisterOp{}); res.Outcome != group.Failed {
		t.Errorf("without etcd a read returns %+v", res)
	}
	s.Start()
	u.mustSwap(config(1, 7))
	s.Kill()
	wait(t, "the end of the connection is noticed", func() bool { return u.seen.disconnected.Load() > 0 })
	if res := u.do(group.RegisterOp{}); res.Outcome != group.Failed {
		t.Errorf("while etcd is stopped a read returns %+v", res)
	}
	s.Start()
	u.mustHold(config(1, 7))
	u.mustSwap(config(2, 7))
}

func TestAfterEachConnectionAUserIsToldToLook(t *testing.T) {
	s := etcdserver.Start(t)
	u := connect(t, s)
	u.read()
	select {
	case <-u.changes:
	default:
		t.Error("it is connected, and was not told to look")
	}
	s.Kill()
	s.Start()
	wait(t, "it is told again", func() bool {
		select {
		case <-u.changes:
			return true
		default:
			return false
		}
	})
}

// TestASwapThatAHungServerDoesLaterIsUnknown stops the process of etcd, so that the request waits in its socket.
func TestASwapThatAHungServerDoesLaterIsUnknown(t *testing.T) {
	s := etcdserver.Start(t)
	u := connect(t, s)
	u.mustSwap(config(1, 7))
	was := u.read()
	s.Signal(syscall.SIGSTOP)
	if o := u.swap(was, config(2, 7)); o != group.Unknown {
		t.Errorf("the swap has the outcome %d", o)
	}
	if res := u.do(group.RegisterOp{}); res.Outcome != group.Failed {
		t.Errorf("a read of a server that hangs returns %+v", res)
	}
	s.Signal(syscall.SIGCONT)
	// It may be done now, or never, if the connection has ended first. Another swap settles it.
	if now := u.read(); now.Config.Epoch > 2 {
		t.Fatalf("the register holds %v", &now.Config)
	}
	u.mustSwap(config(3, 7))
	u.mustHold(config(3, 7))
}

// cutProxy forwards one connection after the other to a server. When told to, it ends a connection at the moment an
// answer comes.
type cutProxy struct {
	net.Listener
	server string
	mu     sync.Mutex
	cut    bool
}

func newCutProxy(t *testing.T, server string) *cutProxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutProxy{Listener: l, server: server}
	t.Cleanup(func() { p.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.forward(c)
		}
	}()
	return p
}

func (p *cutProxy) forward(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client) // it ends with the connection
		server.Close()
	}()
	b := make([]byte, 32<<10)
	var frames frameReader
	for {
		n, err := server.Read(b)
		hasData := frames.hasData(b[:n])
		p.mu.Lock()
		cut := p.cut
		p.mu.Unlock()
		if err != nil || cut && hasData { // an answer, or news of the change
			return
		}
		if _, err := client.Write(b[:n]); err != nil {
			return
		}
	}
}

// frameReader follows the frames of HTTP/2.
type frameReader struct {
	header []byte // of the next frame, as far as it has come
	left   int    // of the payload of the present one
}

// hasData reports whether a frame with data begins in b, which follows what was given before.
func (f *frameReader) hasData(b []byte) (found bool) {
	const headerBytes, typeAt, typeData = 9, 3, 0
	for len(b) > 0 {
		if skip := min(f.left, len(b)); skip > 0 {
			f.left, b = f.left-skip, b[skip:]
			continue
		}
		take := min(headerBytes-len(f.header), len(b))
		f.header, b = append(f.header, b[:take]...), b[take:]
		if len(f.header) == headerBytes {
			f.left = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
			found = found || f.header[typeAt] == typeData
			f.header = f.header[:0]
		}
	}
	return found
}

func (p *cutProxy) setCut(cut bool) {
	p.mu.Lock()
	p.cut = cut
	p.mu.Unlock()
}

func TestASwapIsSentOnce(t *testing.T) {
	s := etcdserver.Start(t)
	p := newCutProxy(t, s.Endpoint)
	u := open(t, Options{DataCenter: "eu", Etcd: endpoints(p.Addr().String())})
	u.mustSwap(config(1, 7))
	admin := adminOf(t, s)
	for epoch := uint64(2); epoch <= 4; epoch++ {
		was := u.read()
		p.setCut(true)
		if o := u.swap(was, config(epoch, 7)); o != group.Unknown {
			t.Errorf("a swap whose answer is lost has the outcome %d", o)
		}
		p.setCut(false)
		u.mustHold(config(epoch, 7))
	}
	resp, err := admin.Get(context.Background(), "causalstore/eu/coordinator-0")
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Kvs[0].Version; got != 4 {
		t.Errorf("4 swaps have written the value %d times", got)
	}
}

// TestARestoredRegisterGetsNoSwapForItsPast restores etcd with the same flags, so that both ids are those of before.
func TestARestoredRegisterGetsNoSwapForItsPast(t *testing.T) {
	s := etcdserver.Start(t)
	p, q := connect(t, s), connect(t, s)
	p.mustSwap(config(1, 7))
	was := p.read()
	s.Kill()
	restore := s.Save()
	s.Start()
	q.mustSwap(config(2, 8))
	s.Kill()
	restore()
	s.Start()
	now := q.read()
	if now.Cluster != was.Cluster || now.Config.Nonce != was.Config.Nonce {
		t.Fatalf("the restored register holds %+v, so it does not test this: want %+v", now, was)
	}
	if o := p.swap(was, config(2, 7)); o != group.Failed {
		t.Errorf("a swap from before the restore has the outcome %d", o)
	}
	q.mustHold(config(1, 7))
}

func TestAnEmptyEtcdInThePlaceOfAnotherOneHasAnotherId(t *testing.T) {
	s := etcdserver.Start(t)
	u := connect(t, s)
	empty := u.read()
	s.Kill()
	s.Empty()
	s.Start()
	if o := u.swap(empty, config(1, 7)); o != group.Failed {
		t.Errorf("the swap has the outcome %d", o)
	}
	now := u.read()
	if now.Found || now.Cluster == empty.Cluster {
		t.Errorf("before %+v, now %+v", empty, now)
	}
	if strings.Split(now.Cluster, "-")[0] != strings.Split(empty.Cluster, "-")[0] {
		t.Logf("etcd's own id has changed too, from %s to %s", empty.Cluster, now.Cluster)
	}
}

func TestARemovedIdMakesAnotherCluster(t *testing.T) {
	s := etcdserver.Start(t)
	u := connect(t, s)
	u.mustSwap(config(1, 7))
	was := u.read()
	if _, err := adminOf(t, s).Delete(context.Background(), "causalstore/eu/cluster-id"); err != nil {
		t.Fatal(err)
	}
	if o := u.swap(was, config(2, 7)); o != group.Failed {
		t.Errorf("the swap has the outcome %d", o)
	}
	if now := u.read(); now.Cluster == was.Cluster || now.Config.Epoch != 1 {
		t.Errorf("before %+v, now %+v", was, now)
	}
}

func TestAClusterOfThreeDoesWithTwoServersAndNotWithOne(t *testing.T) {
	servers := etcdserver.New(t, 3)
	for _, s := range servers {
		s.Start()
	}
	u := connect(t, servers...)
	u.mustSwap(config(1, 7))
	wait(t, "all servers are connected", func() bool { return u.seen.connected.Load()-u.seen.disconnected.Load() == 3 })

	servers[0].Signal(syscall.SIGSTOP) // a hung server delays nothing but a swap that was sent to it
	wait(t, "a swap with one server hung", func() bool { return u.swap(u.read(), config(2, 7)) == group.Done })
	u.mustHold(config(2, 7))

	servers[1].Kill()
	wait(t, "without a quorum reads fail", func() bool { return u.do(group.RegisterOp{}).Outcome == group.Failed })
	servers[0].Signal(syscall.SIGCONT)
	u.mustHold(config(2, 7))
	wait(t, "a swap with the quorum back", func() bool { return u.swap(u.read(), config(3, 7)) == group.Done })
}

func TestAWatchOutlivesCompaction(t *testing.T) {
	s := etcdserver.Start(t)
	p, q := connect(t, s), connect(t, s)
	q.read()
	admin := adminOf(t, s)
	for epoch := uint64(1); epoch <= 3; epoch++ {
		p.mustSwap(config(epoch, 7))
		resp, err := admin.Get(context.Background(), "x")
		if err == nil {
			_, err = admin.Compact(context.Background(), resp.Header.Revision)
		}
		if err != nil {
			t.Fatal(err)
		}
		if epoch == 2 { // what is missed now is compacted before the watch is back
			s.Signal(syscall.SIGSTOP)
			s.Kill()
			s.Start()
		}
		wait(t, "Q is told, and reads the new value", func() bool {
			select {
			case <-q.changes:
				return q.read().Config.Epoch == epoch
			default:
				return false
			}
		})
	}
}

func TestAValueOfSomethingElseIsNotReplaced(t *testing.T) {
	s := etcdserver.Start(t)
	u := connect(t, s)
	was := u.read()
	if _, err := adminOf(t, s).Put(context.Background(), "causalstore/eu/coordinator-0", "hello"); err != nil {
		t.Fatal(err)
	}
	if res := u.do(group.RegisterOp{}); res.Outcome != group.Failed {
		t.Errorf("a read returns %+v", res)
	}
	if o := u.swap(was, config(1, 7)); o != group.Failed {
		t.Errorf("a swap has the outcome %d", o)
	}
}

func TestAUserOfEtcdIsNeededIfItHasUsers(t *testing.T) {
	s := etcdserver.Start(t)
	admin, ctx := adminOf(t, s), context.Background()
	_, err := admin.UserAdd(ctx, "root", "secret")
	for _, do := range []func() error{
		func() error { _, err := admin.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := admin.UserAdd(ctx, "store", "sesame"); return err },
		func() error { _, err := admin.RoleAdd(ctx, "reader"); return err },
		func() error {
			_, err := admin.RoleGrantPermission(ctx, "reader", "causalstore/",
				clientv3.GetPrefixRangeEnd("causalstore/"), clientv3.PermissionType(clientv3.PermRead))
			return err
		},
		func() error { _, err := admin.UserGrantRole(ctx, "store", "reader"); return err },
		func() error { _, err := admin.Put(ctx, "causalstore/eu/cluster-id", "given"); return err },
		func() error { _, err := admin.AuthEnable(ctx); return err },
	} {
		if err == nil {
			err = do()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	c := endpoints(s.Endpoint)
	c.UsernameFile, c.PasswordFile = write("name", "store"), write("password", "wrong")
	u := open(t, Options{DataCenter: "eu", Etcd: c})
	nobody := connect(t, s)
	u.mustBeRefused("invalid user ID or password")
	nobody.mustBeRefused("user name is empty")
	write("password", "sesame") // it is read again
	was := u.read()
	if o := u.swap(was, config(1, 7)); o != group.Failed {
		t.Errorf("a swap by a user who may only read has the outcome %d", o)
	}
}
