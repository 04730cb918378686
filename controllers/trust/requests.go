package trust

import (
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// IssuerGroup is the API group of cert-manager's own issuers.
const IssuerGroup = "cert-manager.io"

// Issuer is an Issuer of cert-manager, or of an external issuer for it, in the operator's namespace.
type Issuer struct{ Name, Group string }

func (i Issuer) String() string { return "Issuer " + i.Name + " of group " + i.Group }

// requestGVK is the kind of the requests to cert-manager, which are unstructured: cert-manager is not a dependency.
var requestGVK = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "CertificateRequest"}

const (
	// LabelRequestOf on a CertificateRequest names the authority of the operator that has made it.
	LabelRequestOf = "causalstore.io/authority"
	// AnnotationIdentity on a CertificateRequest is the identity that it asks for.
	AnnotationIdentity = "causalstore.io/identity"

	// retryAfter is how long a request that was denied or has failed stays, for people to see, until the next one.
	retryAfter = 10 * time.Minute
	// probeInterval is how often the issuer is asked which CA it uses, besides every certificate that it issues.
	probeInterval = time.Hour
	// forgetAfter is how long a request stays that nobody asks for any more.
	forgetAfter = time.Hour
)

// Requests asks an issuer for certificates by CertificateRequests, in the namespace of the operator. The keys are in
// memory until the certificates are in their Secrets: what is under way when the operator ends is asked for again.
type Requests struct {
	Client client.Client
	// Uncached reads the requests.
	Uncached client.Reader
	// Namespace is that of the operator and of the issuer. Name is that of the authority, which the names of requests
	// begin with.
	Namespace, Name string
	Issuer          Issuer

	mu sync.Mutex
	// all are the requests under way, by their names. One that is answered stays until done.
	all map[string]*certificateRequest
	// root is the CA that the issuer has used last, at rootAt; nil: not known.
	root   *Root
	rootAt time.Time
	swept  time.Time
}

// certificateRequest is a request for a certificate.
type certificateRequest struct {
	id     contract.Identity
	key    crypto.Signer
	csr    []byte
	uid    types.UID // of the object; empty before it is there
	asked  time.Time // when somebody has wanted it last
	answer *issuedCertificate
	failed error // why there will be no answer
	at     time.Time
}

// issuedCertificate is a certificate that was verified.
type issuedCertificate struct {
	leaf      []byte // PEM
	key       []byte // PEM
	notBefore time.Time
	root      *Root
}

// get returns the certificate for an identity. While there is none, it returns a PendingError, or why there is none.
func (r *Requests) get(ctx context.Context, id contract.Identity, now time.Time) (*issuedCertificate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := r.nameOf(id)
	q := r.all[name]
	switch {
	case q == nil || q.answer != nil && r.isStale(q.answer, now):
		return nil, r.start(ctx, name, id, now)
	case q.failed != nil && now.Sub(q.at) >= retryAfter:
		return nil, r.start(ctx, name, id, now)
	}
	q.asked = now
	switch {
	case q.failed != nil:
		return nil, q.failed
	case q.answer != nil:
		return q.answer, nil
	case q.uid == "":
		return nil, r.create(ctx, name, q)
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(requestGVK)
	err := r.Uncached.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, live)
	switch {
	case apierrors.IsNotFound(err) || err == nil && live.GetUID() != q.uid: // somebody has deleted it
		return nil, r.start(ctx, name, id, now)
	case err != nil:
		return nil, r.explain("read", name, err)
	}
	answer, err := r.readAnswer(q, live, now)
	switch {
	case IsPending(err):
		return nil, err
	case err != nil:
		q.failed, q.at = err, now
		return nil, err
	}
	q.answer, r.root, r.rootAt = answer, answer.root, now
	return answer, nil
}

// isStale reports whether an answer is too old to be used, or of a CA that the issuer has replaced before it could be
// used.
func (r *Requests) isStale(a *issuedCertificate, now time.Time) bool {
	return now.Sub(a.notBefore) >= renewAge+authority.Backdate || !a.root.Is(r.root)
}

// nameOf returns the name of the request for an identity.
func (r *Requests) nameOf(id contract.Identity) string {
	sum := sha256.Sum256([]byte(id.String()))
	return r.Name + "-" + hex.EncodeToString(sum[:8])
}

func (r *Requests) object(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(requestGVK)
	u.SetNamespace(r.Namespace)
	u.SetName(name)
	return u
}

// start makes a key and a request for it. What has the name of the request is of an earlier attempt.
func (r *Requests) start(ctx context.Context, name string, id contract.Identity, now time.Time) error {
	key, csr, err := authority.NewRequest(id)
	if err != nil {
		return err
	}
	if r.all == nil {
		r.all = map[string]*certificateRequest{}
	}
	r.all[name] = &certificateRequest{id: id, key: key, csr: csr, asked: now}
	return r.create(ctx, name, r.all[name])
}

func (r *Requests) create(ctx context.Context, name string, q *certificateRequest) error {
	if err := r.delete(ctx, name); err != nil {
		return err
	}
	u := r.object(name)
	u.SetLabels(map[string]string{plan.LabelManagedBy: plan.ManagedBy, LabelRequestOf: r.Name})
	u.SetAnnotations(map[string]string{AnnotationIdentity: q.id.String()})
	u.Object["spec"] = map[string]any{
		"request":   base64.StdEncoding.EncodeToString(q.csr),
		"duration":  (LeafLife + authority.Backdate).String(),
		"usages":    []any{"digital signature", "client auth", "server auth"},
		"issuerRef": map[string]any{"name": r.Issuer.Name, "kind": "Issuer", "group": r.Issuer.Group},
	}
	switch err := r.Client.Create(ctx, u); {
	case apierrors.IsAlreadyExists(err): // it is being deleted
		return &PendingError{fmt.Sprintf("CertificateRequest %s of namespace %s is being replaced", name, r.Namespace)}
	case err != nil:
		return r.explain("create", name, err)
	}
	q.uid = u.GetUID()
	return &PendingError{fmt.Sprintf("CertificateRequest %s of namespace %s waits for %s", name, r.Namespace, r.Issuer)}
}

// delete deletes a request that this operator has made.
func (r *Requests) delete(ctx context.Context, name string) error {
	live := r.object(name)
	err := r.Uncached.Get(ctx, client.ObjectKeyFromObject(live), live)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return r.explain("read", name, err)
	case live.GetLabels()[LabelRequestOf] != r.Name:
		return fmt.Errorf(
			"CertificateRequest %s of namespace %s was not made by this operator (label %s=%s); delete it", name,
			r.Namespace, LabelRequestOf, r.Name)
	}
	uid := live.GetUID()
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, live, client.Preconditions{UID: &uid})); err != nil {
		return r.explain("delete", name, err)
	}
	return nil
}

// explain says what to do about the errors of a cluster that is not prepared.
func (r *Requests) explain(verb, name string, err error) error {
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf(
			"%s CertificateRequest %s of namespace %s: cert-manager is not installed (kind CertificateRequest of "+
				"cert-manager.io/v1 is unknown); install it, or unset trust.issuer.name of the chart",
			verb, name, r.Namespace)
	case apierrors.IsForbidden(err):
		return fmt.Errorf(
			"%s CertificateRequest %s of namespace %s: %w; install the chart with trust.issuer.name, which grants it",
			verb, name, r.Namespace, err)
	}
	return fmt.Errorf("%s CertificateRequest %s of namespace %s: %w", verb, name, r.Namespace, err)
}

// done deletes the request of an identity that has its certificate.
func (r *Requests) done(ctx context.Context, id contract.Identity) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.finish(ctx, r.nameOf(id))
}

func (r *Requests) finish(ctx context.Context, name string) error {
	if r.all[name] == nil {
		return nil
	}
	if err := r.delete(ctx, name); err != nil {
		return err
	}
	delete(r.all, name)
	return nil
}

// probe returns the CA that the issuer uses now. It asks for a certificate that nobody uses, unless it knows from
// another one.
func (r *Requests) probe(ctx context.Context, region, trustDomain string, now time.Time) (*Root, error) {
	r.sweep(ctx, now)
	r.mu.Lock()
	root, at := r.root, r.rootAt
	r.mu.Unlock()
	// No part has this identity, and its role may say nothing on links.
	id := contract.Identity{TrustDomain: trustDomain, StoreID: "operator", DataCenter: region,
		Role: contract.RoleOperator, Member: r.Name}
	if root != nil && now.Sub(at) < probeInterval && !now.Before(at) {
		return root, r.done(ctx, id)
	}
	answer, err := r.get(ctx, id, now)
	if err != nil {
		return nil, err
	}
	return answer.root, r.done(ctx, id)
}

// sweep deletes the requests that nobody waits for any more: those of parts that have gone, and those of an earlier
// process, whose keys are lost.
func (r *Requests) sweep(ctx context.Context, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.swept.IsZero() && now.Sub(r.swept) < forgetAfter/4 && !now.Before(r.swept) {
		return
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(requestGVK)
	if err := r.Uncached.List(ctx, list, client.InNamespace(r.Namespace),
		client.MatchingLabels{LabelRequestOf: r.Name}); err != nil {
		return // the next request says what is wrong
	}
	r.swept = now
	for name, q := range r.all {
		if now.Sub(q.asked) >= forgetAfter {
			delete(r.all, name)
		}
	}
	for i := range list.Items {
		if name := list.Items[i].GetName(); r.all[name] == nil {
			if err := r.delete(ctx, name); err != nil {
				log.FromContext(ctx).Error(err, "clean up certificate requests")
			}
		}
	}
}

// issuerSigner has certificates signed by an issuer.
type issuerSigner struct {
	requests *Requests
	// issuing is the CA whose certificates others accept.
	issuing *Root
}

func (s *issuerSigner) issue(ctx context.Context, id contract.Identity, urgent bool, now time.Time) (cert, key []byte,
	err error) {
	a, err := s.requests.get(ctx, id, now)
	if err != nil {
		return nil, nil, err
	}
	leaf := readLeaf(a.leaf, a.key)
	switch {
	case leaf.CheckSignatureFrom(s.issuing.cert) != nil:
		return nil, nil,
			&PendingError{
				fmt.Sprintf(
					"the certificate of CertificateRequest %s is of a CA that is not accepted everywhere "+
						"yet (SHA-256 %s)",
					s.requests.nameOf(id), Fingerprint(a.root.cert))}
	case !urgent && now.Before(a.notBefore.Add(authority.Backdate)): // machines whose clocks are late would refuse it
		return nil, nil,
			&PendingError{
				fmt.Sprintf(
					"the certificate of CertificateRequest %s is used from %s on, when it is valid by every clock",
					s.requests.nameOf(id), formatTime(a.notBefore.Add(authority.Backdate)))}
	}
	return a.leaf, a.key, nil
}

func (s *issuerSigner) done(ctx context.Context, id contract.Identity) error {
	return s.requests.done(ctx, id)
}
