package transport

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/identity"
	"github.com/causalstore/causalstore/sidecar/transport/authorize"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// Violation is what a peer did that it may not. It costs the peer the link.
type Violation uint8

// The violations.
const (
	ViolationCertificate Violation = iota // its certificate is not trusted, or is no longer valid
	ViolationIdentity                     // its hello names a node that it must not speak for
	ViolationSender                       // a message is from a node that it does not run
	ViolationKind                         // a message of a kind that it may not send there
	ViolationContent                      // a message speaks for others
	ViolationLimit                        // it opens more links than it may
	ViolationManifest                     // it runs other data centers, rings or another binding
	numViolations
)

var violationNames = [...]string{"certificate", "identity", "sender", "kind", "content", "limit", "manifest"}

func (v Violation) String() string { return violationNames[v] }

// violations counts what peers did that they may not, and logs it.
type violations struct {
	counts [numViolations]atomic.Uint64
	log    violationLog
}

// note counts a violation. who is the identity of the peer, or its address if that is not known.
func (v *violations) note(kind Violation, who string, err error, log *slog.Logger) {
	v.counts[kind].Add(1)
	v.log.add(kind, who, err, time.Now(), log)
}

// violationOf says what a message that is refused amounts to.
var violationOf = map[authorize.Reason]Violation{
	authorize.ForeignNode: ViolationSender, authorize.Forbidden: ViolationKind, authorize.ForeignData: ViolationContent,
}

// authorize returns why the peer of a link must not send m, or Permitted.
func (g *GRPC) authorize(m *causal.Message, peer *wire.Hello) authorize.Reason {
	if g.config.Topology == nil {
		return authorize.Permitted
	}
	if len(peer.Nodes) != 1 || peer.Nodes[0] != m.From && peer.Nodes[0].Group() != m.From { // a member speaks for its node, too
		return authorize.ForeignNode
	}
	return authorize.Check(m, g.config.Topology())
}

// refuseMessage counts and logs a message that the peer must not send, and returns the error that ends the link.
func (g *GRPC) refuseMessage(m *causal.Message, reason authorize.Reason, who string) error {
	err := fmt.Errorf("%s from %v to %v: %s", m.Kind, m.From, m.To, reason)
	g.violations.note(violationOf[reason], who, err, g.config.Log)
	return status.Error(codes.PermissionDenied, err.Error())
}

// refuseViolation refuses a stream because of what its peer did.
func (g *GRPC) refuseViolation(a *acceptor, v Violation, err error) error {
	g.failed.Add(1)
	g.violations.note(v, a.who(), err, g.config.Log)
	if v == ViolationManifest {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	return status.Error(codes.PermissionDenied, err.Error())
}

// snapshot returns the counts, by Violation.
func (v *violations) snapshot() []uint64 {
	all := make([]uint64, numViolations)
	for i := range all {
		all[i] = v.counts[i].Load()
	}
	return all
}

// checkHello returns why the peer must not run the nodes that its hello names. id is nil without TLS.
func (g *GRPC) checkHello(h *wire.Hello, id *peerIdentity) error {
	if g.config.Topology == nil {
		return nil
	}
	t := g.config.Topology()
	if id != nil {
		return identity.CheckNodes(id.Identity, h.Nodes, t)
	}
	if len(h.Nodes) != 1 {
		return fmt.Errorf("process %q runs %d nodes; a process runs one", h.Process, len(h.Nodes))
	}
	return identity.CheckNode(h.Nodes[0], t)
}
