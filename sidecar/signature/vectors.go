package signature

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/identity"
	"github.com/causalstore/causalstore/topology"
)

// Vectors signs what the leader of a data center says of its origins, and verifies what other leaders have said, and
// others pass on (PROTOCOL COO-15). It implements coordinator.Signer.
//
// A seal is the number of certificates in the chain of the signer (1 byte), these, and the signature, each with its
// length as a uvarint.
type Vectors struct {
	credentials Credentials
	topology    func() *topology.Topology
	now         func() time.Time
	log         *slog.Logger
	signers     Signers
	refused     [topology.MaxDCs]atomic.Uint64 // by data center
	// by data center, and of failures to sign. Only the caller of Sign and Verify uses it
	loggedAt [topology.MaxDCs + 1]time.Time
}

// logInterval is how often the failures of one data center are logged.
const logInterval = time.Minute

// maxChain is the number of certificates that a seal may have.
const maxChain = 4

// NewVectors returns a signer for a process with one node of a topology.
func NewVectors(credentials Credentials, topology func() *topology.Topology, now func() time.Time,
	log *slog.Logger) *Vectors {
	return &Vectors{credentials: credentials, topology: topology, now: now, log: log}
}

// Sign implements coordinator.Signer.
func (v *Vectors) Sign(statement []byte) ([]byte, error) {
	own, trust := v.credentials()
	seal, err := seal(own.Certificate, func() ([]byte, error) { return Sign(own, v.signedMessage(trust, statement)) })
	if err != nil && v.mayLog(topology.MaxDCs) {
		v.log.Warn(
			"cannot sign the vectors of this data center: others that do not hear this process learn late what is "+
				"complete here", "error", err)
	}
	return seal, err
}

func seal(chain [][]byte, sign func() ([]byte, error)) ([]byte, error) {
	if len(chain) > maxChain {
		return nil, fmt.Errorf("the certificate comes with %d others; at most %d fit", len(chain)-1, maxChain-1)
	}
	signature, err := sign()
	if err != nil {
		return nil, err
	}
	b := []byte{byte(len(chain))}
	for _, part := range append(chain[:len(chain):len(chain)], signature) {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	if len(b) > causal.MaxSealBytes {
		return nil, fmt.Errorf("the certificate and the others with it have %d bytes; at most %d fit", len(b),
			causal.MaxSealBytes)
	}
	return b, nil
}

// Verify implements coordinator.Signer. It costs the verification of a certificate, if that is new, and of a signature.
func (v *Vectors) Verify(of topology.DC, statement, seal []byte, sender topology.Node) error {
	err := v.verify(of, statement, seal)
	if err != nil {
		v.refused[of].Add(1)
		if v.mayLog(of) {
			v.log.Warn(
				"vectors refused: it is not certain that the first coordinator of the data center has signed them",
				"of", v.topology().DCs[of].Name,
				"sender", sender, "error", err, "quietFor", logInterval)
		}
	}
	return err
}

func (v *Vectors) verify(of topology.DC, statement, seal []byte) error {
	chain, signature, err := parseSeal(seal)
	if err != nil {
		return err
	}
	_, trust := v.credentials()
	signer, err := v.signers.Verify(chain, trust, v.now())
	if err != nil {
		return err
	}
	t := v.topology()
	if n, ok := identity.NodeOf(signer.Identity, t); !ok || n != t.Leader(of) {
		return fmt.Errorf("%s is not the first coordinator of data center %s", signer.Identity, t.DCs[of].Name)
	}
	if signer.Check(v.signedMessage(trust, statement), signature) != nil {
		return errors.New("the signature is wrong")
	}
	return nil
}

func parseSeal(b []byte) (chain [][]byte, signature []byte, err error) {
	if len(b) == 0 {
		return nil, nil, errors.New("they are not signed")
	}
	n, b := int(b[0]), b[1:]
	malformed := errors.New("the seal is malformed")
	if n == 0 || n > maxChain {
		return nil, nil, malformed
	}
	for range n + 1 {
		length, read := binary.Uvarint(b)
		if read <= 0 || length == 0 || length > uint64(len(b)-read) {
			return nil, nil, malformed
		}
		chain, b = append(chain, b[read:read+int(length)]), b[read+int(length):]
	}
	if len(b) > 0 {
		return nil, nil, malformed
	}
	return chain[:n], chain[n], nil
}

// vectorsContext begins what is signed.
const vectorsContext = "causalstore vectors\x00"

// signedMessage returns what is signed: a statement, for one store with its data centers and rings. Origins and rings
// are numbers, which mean nothing in another manifest.
func (v *Vectors) signedMessage(trust *identity.Trust, statement []byte) []byte {
	b := append([]byte(vectorsContext), manifestDigest(v.topology())...)
	id := trust.StoreID()
	b = binary.BigEndian.AppendUint64(b, uint64(len(id)))
	b = append(b, id...)
	return append(b, statement...)
}

// manifestDigest digests the names of the data centers and rings of a topology, in order.
func manifestDigest(t *topology.Topology) []byte {
	h := sha256.New()
	for _, dc := range t.DCs {
		fmt.Fprintf(h, "%q ", dc.Name)
	}
	for _, r := range t.Rings {
		fmt.Fprintf(h, "%q %v ", r.Name, r.DCs)
	}
	return h.Sum(nil)
}

func (v *Vectors) mayLog(what topology.DC) bool {
	now := v.now()
	if at := v.loggedAt[what]; !at.IsZero() && now.Sub(at) < logInterval {
		return false
	}
	v.loggedAt[what] = now
	return true
}

// Refused returns how often vectors of a data center were refused.
func (v *Vectors) Refused(of topology.DC) uint64 { return v.refused[of].Load() }
