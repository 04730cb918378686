package register

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// etcdKey is the access of one member to the value of its group.
type etcdKey struct {
	etcd    *etcd
	name    string
	changed func()

	mu   sync.Mutex
	last *reading // since the last swap
}

// reading is what was read, and where.
type reading struct {
	session *session
	id      string // the random one of the cluster
	cluster string
	value   []byte // nil: there is none
	config  group.Config
}

var errNotConnected = errors.New("no server can be reached")

// Do implements Key.
func (k *etcdKey) Do(ctx context.Context, op group.RegisterOp) group.RegisterResult {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	started, verb := time.Now(), "read"
	var res group.RegisterResult
	var err error
	if op.Swap {
		verb = "swap"
		res.Outcome, err = k.swap(ctx, &op)
		res.Cluster = op.Cluster
	} else {
		res, err = k.read(ctx)
	}
	res.ID = op.ID
	k.etcd.o.Metrics.RequestDone(op.Swap, res.Outcome, time.Since(started))
	if err != nil {
		k.etcd.failed.Do(func() {
			k.etcd.o.Log.Warn("a request to the register has failed", "request", verb, "key", k.name, "servers",
				k.etcd.servers(),
				"unknown", res.Outcome == group.Unknown, "error", err)
		})
	}
	return res
}

// read reads from all servers; the first answer counts.
func (k *etcdKey) read(ctx context.Context) (group.RegisterResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		r   *reading
		err error
	}
	sessions := k.etcd.connected()
	answers := make(chan answer, len(sessions))
	for _, s := range sessions {
		go func() {
			r, err := s.read(ctx, k)
			answers <- answer{r, err}
		}()
	}
	errs := []error{errNotConnected}
	for range sessions {
		a := <-answers
		if a.err != nil {
			errs = append(errs, a.err)
			continue
		}
		k.mu.Lock()
		k.last = a.r
		k.mu.Unlock()
		return group.RegisterResult{Outcome: group.Done, Cluster: a.r.cluster, Found: a.r.value != nil,
			Config: a.r.config}, nil
	}
	if len(errs) > 1 {
		errs = errs[1:]
	}
	return group.RegisterResult{Outcome: group.Failed}, errors.Join(errs...)
}

// read reads the value and the id of the cluster, which it creates if there is none.
func (s *session) read(ctx context.Context, k *etcdKey) (*reading, error) {
	idKey := k.etcd.idKey()
	for range 2 {
		resp, err := s.client.Txn(ctx).Then(clientv3.OpGet(idKey), clientv3.OpGet(k.name)).Commit()
		if err != nil {
			return nil, err
		}
		ids, values := resp.Responses[0].GetResponseRange().Kvs, resp.Responses[1].GetResponseRange().Kvs
		if len(ids) == 0 {
			_, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(idKey), "=", 0)).
				Then(clientv3.OpPut(idKey, rand.Text())).Commit()
			if err != nil {
				return nil, fmt.Errorf("create %s: %w", idKey, err)
			}
			continue
		}
		r := &reading{session: s, id: string(ids[0].Value),
			cluster: fmt.Sprintf("%016x-%s", resp.Header.ClusterId, ids[0].Value)}
		if len(values) > 0 {
			r.value = slices.Clone(values[0].Value)
			if r.config, err = group.ParseValue(r.value); err != nil {
				return nil, fmt.Errorf("the content of %s: %w", k.name, err)
			}
		}
		return r, nil
	}
	return nil, fmt.Errorf("%s was removed while it was created", idKey)
}

var (
	errNotRead = errors.New("what was read is not what the swap expects")
	errDiffers = errors.New("the value has changed")
)

// swap swaps where the value was read last.
func (k *etcdKey) swap(ctx context.Context, op *group.RegisterOp) (group.Outcome, error) {
	k.mu.Lock()
	last := k.last
	k.last = nil
	k.mu.Unlock()
	switch {
	case last == nil || last.cluster != op.Cluster || last.config.Nonce != op.Expect:
		return group.Failed, errNotRead
	case last.session.ctx.Err() != nil:
		return group.Failed, context.Cause(last.session.ctx)
	}
	same := clientv3.Compare(clientv3.Value(k.name), "=", string(last.value))
	if last.value == nil {
		same = clientv3.Compare(clientv3.CreateRevision(k.name), "=", 0)
	}
	resp, err := last.session.client.Txn(ctx).If(clientv3.Compare(clientv3.Value(k.etcd.idKey()), "=", last.id), same).
		Then(clientv3.OpPut(k.name, string(op.Config.AppendValue(nil)))).Commit()
	switch {
	case isRefusal(err):
		return group.Failed, err
	case err != nil:
		return group.Unknown, err
	case !resp.Succeeded:
		return group.Failed, errDiffers
	}
	return group.Done, nil
}

// isRefusal reports whether an error means that the server has done nothing, and will not: the user may not do this.
func isRefusal(err error) bool {
	return slices.ContainsFunc([]error{rpctypes.ErrPermissionDenied, rpctypes.ErrInvalidAuthToken,
		rpctypes.ErrUserEmpty},
		func(refusal error) bool { return errors.Is(err, refusal) })
}
