// Package register holds the configurations of groups (PROTOCOL GRP-16): it carries out the requests of package group
// to their register, a value with linearizable reads and compare-and-swap, in etcd or in the memory of one process.
//
// Failure model: servers of etcd stop, hang, lose their quorum, are restored from a backup or replaced by empty ones,
// all together or one by one; requests and answers are lost or late. The data of a cluster that runs is believed: etcd
// loses nothing that it has acknowledged.
//
// # Which cluster
//
// A swap must apply in the cluster that was read, and in no other one. etcd has an id of its cluster in every answer,
// but answers come too late, and the id is a hash of the names and addresses of the first servers, so a cluster that is
// made again with the same flags has the same one. So three things say which cluster it is:
//
//   - The connection. A swap is sent on the connection on which the same user has last read the value, and fails
//     without being sent if that has ended. A server belongs to one cluster from its start to its end, and a connection
//     does not outlive it. So a swap cannot apply in a cluster that was restored or replaced after the read, whatever
//     that one has the same. For this a session (type session) dials once, and a request is sent once: the retries of
//     the client library are turned off.
//   - A random id, beside the values (PREFIX/.../cluster-id), which the first user creates. An empty cluster in the
//     place of the lost one has another. Each swap compares it as well, for those who remove it by hand.
//   - etcd's own id. A restore from a backup gets a new one, if the servers have got other names, addresses or another
//     token.
//
// RegisterResult.Cluster is made of the last two. A backup that was restored with the flags of the lost cluster has
// both; then the older configuration gives it away, as the protocol says. A proxy that speaks gRPC must not be between
// part and etcd, since its connections outlive the servers behind it; those that forward TCP do no harm.
//
// # Outcomes
//
// A swap of which no answer has come is Unknown, and so is one that was answered with an error, unless the server says
// that the user may not do this. etcd has errors that say less than they seem to: with its quota exceeded it applies a
// transaction, and answers with an error.
package register

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/identity"
	"github.com/causalstore/causalstore/topology"
)

// Register holds one value for each group. It is safe for concurrent use.
type Register interface {
	// Key returns the access of one member to the value of its group, see KeyOf. changed is called after the value has
	// changed and whenever that may have been missed; also for no reason, and perhaps not at all. It must not block.
	Key(name string, changed func()) Key
	// Close ends all requests, and waits for that. It is called once.
	Close() error
}

// Key is the access of one member to the value of its group.
type Key interface {
	// Do carries out a request, or fails within RequestTimeout or when ctx is done. A swap may fail unless this Key has
	// read the value since the swap before.
	Do(ctx context.Context, op group.RegisterOp) group.RegisterResult
	// Close ends the calls of changed; one may still be in progress.
	Close()
}

// RequestTimeout bounds a request. It is shorter than the time after which a group gives one up.
const RequestTimeout = 2 * time.Second

// KeyOf returns the name of the value for the group of a node.
func KeyOf(n topology.Node) string { return fmt.Sprintf("%s-%d", n.Part, n.Index) }

// Metrics count what a register does. Implementations are safe for concurrent use.
type Metrics interface {
	// RequestDone counts a request and how long it took.
	RequestDone(swap bool, o group.Outcome, took time.Duration)
	// Connected counts a connection to a server, whose watch has begun.
	Connected()
	// Disconnected counts the end of one.
	Disconnected()
}

// Options say where a register in etcd is.
type Options struct {
	Etcd       contract.EtcdRegister
	DataCenter string
	// Credentials returns the certificate of this process and whom it trusts; nil without contract.Config.TLS.
	Credentials func() (*tls.Certificate, *identity.Trust)
	Metrics     Metrics
	Log         *slog.Logger
}

// DefaultPrefix is the prefix of all keys in etcd.
const DefaultPrefix = "causalstore"

// MaxEndpoints bounds the servers of a cluster: each read goes to all of them. etcd advises against more than seven.
const MaxEndpoints = 9

// Open returns the register in etcd. It connects in the background, so etcd need not run.
func Open(o Options) (Register, error) {
	if n := len(o.Etcd.Endpoints); n == 0 || n > MaxEndpoints {
		return nil, fmt.Errorf("open the register: %d endpoints of etcd; give 1 to %d", n, MaxEndpoints)
	}
	return openEtcd(o)
}
