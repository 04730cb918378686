package register

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// cancelingServer is an etcd that answers each swap with an error, although it may have done it.
type cancelingServer struct {
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedWatchServer
	code  codes.Code
	swaps atomic.Int64
}

func (s *cancelingServer) Range(context.Context, *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	return &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{}}, nil
}

func (s *cancelingServer) Txn(_ context.Context, r *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	if len(r.Compare) > 0 {
		s.swaps.Add(1)
		return nil, status.Error(s.code, "told so")
	}
	answer := func(kvs ...*mvccpb.KeyValue) *etcdserverpb.ResponseOp {
		return &etcdserverpb.ResponseOp{
			Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: &etcdserverpb.RangeResponse{Kvs: kvs}},
		}
	}
	return &etcdserverpb.TxnResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 1}, Succeeded: true,
		Responses: []*etcdserverpb.ResponseOp{answer(&mvccpb.KeyValue{Value: []byte("id")}), answer()}}, nil
}

func (s *cancelingServer) Watch(w etcdserverpb.Watch_WatchServer) error {
	for {
		if _, err := w.Recv(); err != nil {
			return err
		}
		if err := w.Send(&etcdserverpb.WatchResponse{Header: &etcdserverpb.ResponseHeader{},
			Created: true}); err != nil {
			return err
		}
	}
}

// The client library repeats requests that a server has answered with some of these codes.
func TestASwapThatIsAnsweredWithAnErrorIsNotRepeated(t *testing.T) {
	for _, code := range []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Unavailable,
		codes.ResourceExhausted, codes.Unknown} {
		t.Run(code.String(), func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s, server := &cancelingServer{code: code}, grpc.NewServer()
			etcdserverpb.RegisterKVServer(server, s)
			etcdserverpb.RegisterWatchServer(server, s)
			served := make(chan error, 1)
			go func() { served <- server.Serve(l) }()
			t.Cleanup(func() {
				server.Stop()
				<-served
			})
			u := open(t, Options{DataCenter: "eu", Etcd: endpoints(l.Addr().String())})
			if o := u.swap(u.read(), config(1, 7)); o != group.Unknown {
				t.Errorf("it has the outcome %d", o)
			}
			if n := s.swaps.Load(); n != 1 {
				t.Errorf("it was sent %d times", n)
			}
		})
	}
}
