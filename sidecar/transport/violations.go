package transport

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
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
	ViolationField                        // a field of a message, or the encoding, is one that no version sends
	ViolationLimit                        // it opens more links than it may
	ViolationManifest                     // it runs other data centers, rings or another binding
	numViolations
)

var violationNames = [...]string{"certificate", "identity", "sender", "kind", "content", "field", "limit", "manifest"}

func (v Violation) String() string { return violationNames[v] }

// violations counts what peers did that they may not, and logs it.
type violations struct {
	counts [numViolations]atomic.Uint64
	log    peerLog
}

// note counts a violation. who is the identity of the peer, or its address if that is not known.
func (v *violations) note(kind Violation, who string, err error, log *slog.Logger) {
	v.noteAt(kind, who, err, time.Now(), log)
}

func (v *violations) noteAt(kind Violation, who string, err error, now time.Time, log *slog.Logger) {
	v.counts[kind].Add(1)
	line := peerLine{slog.LevelError, "link refused: the peer must not do this", kind.String(), who}
	v.log.add(line, []any{"violation", kind, "error", err}, now, log)
}

// violationOf says what a message that is refused amounts to.
var violationOf = map[authorize.Reason]Violation{
	authorize.ForeignNode: ViolationSender, authorize.Forbidden: ViolationKind, authorize.ForeignData: ViolationContent,
	authorize.Malformed: ViolationField,
}

// authorize returns why the peer of a link must not send m, or Permitted.
func (g *GRPC) authorize(m *causal.Message, peer *wire.Hello) authorize.Reason {
	if g.config.Topology == nil {
		return authorize.Permitted
	}
	if len(peer.Nodes) != 1 || peer.Nodes[0] != m.From && peer.Nodes[0].Group() != m.From {
		// a member speaks for its node, too
		return authorize.ForeignNode
	}
	return authorize.Check(m, g.config.Topology())
}

// refuseMessage counts and logs a message that the peer must not send, and returns the error that ends the link.
func (g *GRPC) refuseMessage(m *causal.Message, reason authorize.Reason, who string) error {
	err := fmt.Errorf("%s from %v to %v: %s", m.Kind, m.From, m.To, reason)
	if reason == authorize.Malformed {
		_, field := causal.Validate(m, g.config.Topology())
		err = fmt.Errorf("%w of %s", err, field)
	}
	g.violations.note(violationOf[reason], who, err, g.config.Log)
	return status.Error(codes.PermissionDenied, err.Error())
}

// refuseFrame counts and logs a frame that cannot be decoded or judged, and returns the error that ends the link.
func (g *GRPC) refuseFrame(err error, who string) error {
	g.violations.note(ViolationField, who, err, g.config.Log)
	return status.Error(codes.InvalidArgument, "a frame is not as the protocol has it")
}

// panicked returns the error for a panic, with the stack where it came from.
func panicked(value any) error {
	return fmt.Errorf("it broke this part, which is a bug: please report it: %v\n%s", value, debug.Stack())
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

// errRemoved is wrapped by the refusal of a peer that was removed.
var errRemoved = errors.New("it was removed, or its configuration is older than that")

// checkPlaces returns why a peer is refused that runs a node which the topology does not have. A peer with a later
// topology is not: this process will learn of that one, and meanwhile it may be the one to hear of a new part's writes.
// One with an earlier topology was removed, which is no offense (errRemoved).
func (g *GRPC) checkPlaces(h *wire.Hello) error {
	if g.config.Topology == nil {
		return nil
	}
	t := g.config.Topology()
	for _, n := range h.Nodes {
		switch {
		case t.Runs(n), h.TopologyEpoch > t.Epoch:
		case h.TopologyEpoch < t.Epoch:
			return fmt.Errorf("topology epoch %d has no %v: %w", t.Epoch, n, errRemoved)
		default:
			return fmt.Errorf("topology epoch %d, which the peer has too, has no %v", t.Epoch, n)
		}
	}
	return nil
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
