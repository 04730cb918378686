package trust

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// checkInterval is how often the ConfigMaps about trust are read.
const checkInterval = 3 * time.Second

// Keeper keeps the authority of the operator's region in a Secret of the operator's namespace, publishes its bundle in a ConfigMap, and
// records what it accepts of the bundles of other regions. Several replicas may run one: writes fail if the object has changed.
type Keeper struct {
	Client client.Client
	// Uncached reads Secrets and the namespace kube-system, and lists ConfigMaps in the operator's namespace.
	Uncached client.Reader
	// Namespace is that of the operator. Name is that of the Secret, and of the ConfigMap with the own bundle; the record has the suffix
	// ".trusted".
	Namespace, Name string
	Region          string
	// TrustDomain of a new authority. Default: the region and the UID of kube-system, which tells clusters apart.
	TrustDomain string
	Now         func() time.Time

	mu      sync.Mutex
	state   *State
	read    time.Time
	changed chan event.GenericEvent
}

// State is what the operator knows about trust.
type State struct {
	Region string
	// TrustDomain, Bundle and Issuing are the authority of this region. If it cannot be used, Issuing is nil and Problem says why.
	TrustDomain string
	Bundle      string
	Issuing     *authority.Authority
	Problem     string
	// Peers are the trust domains of other regions.
	Peers map[string]Entry
	// Refused says which ConfigMaps about other regions are not accepted, and why.
	Refused []string
}

// RecordName is the name of the ConfigMap with the record of an operator that has an authority of that name.
func RecordName(authority string) string { return authority + ".trusted" }

func (k *Keeper) recordName() string { return RecordName(k.Name) }

// Changes returns a channel with an event for each change of the state.
func (k *Keeper) Changes() <-chan event.GenericEvent {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.changed == nil {
		k.changed = make(chan event.GenericEvent, 1)
	}
	return k.changed
}

// Start implements manager.Runnable: it checks what has changed until the context ends.
func (k *Keeper) Start(ctx context.Context) error {
	for {
		if _, err := k.Refresh(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "check the authority")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(checkInterval):
		}
	}
}

// Current returns the state, as it was a few seconds ago at most.
func (k *Keeper) Current(ctx context.Context) (*State, error) { return k.sync(ctx, checkInterval) }

// Refresh returns the state as it is now.
func (k *Keeper) Refresh(ctx context.Context) (*State, error) { return k.sync(ctx, 0) }

// sync reads what is older than maxAge, and writes what is due.
func (k *Keeper) sync(ctx context.Context, maxAge time.Duration) (*State, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); k.state != nil && now.Sub(k.read) < maxAge {
		return k.state, nil
	}
	s, err := k.load(ctx)
	if err != nil {
		return nil, err
	}
	if k.state != nil && k.changed != nil && !equal(k.state, s) {
		select {
		case k.changed <- event.GenericEvent{Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name}}}:
		default: // one is waiting
		}
	}
	k.state, k.read = s, time.Now()
	return s, nil
}

func equal(a, b *State) bool {
	issues := func(s *State) string {
		if s.Issuing == nil {
			return ""
		}
		return Fingerprint(s.Issuing.Certificate())
	}
	return a.TrustDomain == b.TrustDomain && a.Bundle == b.Bundle && a.Problem == b.Problem && issues(a) == issues(b) &&
		slices.Equal(a.Refused, b.Refused) && reflect.DeepEqual(a.Peers, b.Peers)
}

func (k *Keeper) load(ctx context.Context) (*State, error) {
	own, err := k.readOwned(ctx, k.Name)
	if err != nil {
		return nil, err
	}
	s, err := k.loadAuthority(ctx, own)
	if err != nil {
		return nil, err
	}
	return s, k.loadPeers(ctx, s)
}

// loadAuthority reads the authority, and makes it if there is none and has never been.
func (k *Keeper) loadAuthority(ctx context.Context, own *corev1.ConfigMap) (*State, error) {
	s := &State{Region: k.Region}
	if own != nil {
		s.TrustDomain, s.Bundle = own.Data[FieldTrustDomain], own.Data[FieldBundle]
	}
	secret := &corev1.Secret{}
	err := k.Uncached.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: k.Name}, secret)
	switch {
	case apierrors.IsNotFound(err) && own != nil:
		s.Problem = fmt.Sprintf("Secret %s of namespace %s, with the key of the region's authority, is gone; restore it from a backup, or, to make a new authority that other regions must trust anew, delete ConfigMap %s",
			k.Name, k.Namespace, k.Name)
		return s, nil
	case apierrors.IsNotFound(err):
		secret = nil
	case err != nil:
		return nil, fmt.Errorf("read Secret %s of namespace %s: %w", k.Name, k.Namespace, err)
	case secret.Labels[plan.LabelManagedBy] != plan.ManagedBy:
		s.Problem = fmt.Sprintf("Secret %s of namespace %s exists and was not made by an operator (label %s=%s); delete it, or name another one in --authority-secret",
			k.Name, k.Namespace, plan.LabelManagedBy, plan.ManagedBy)
		return s, nil
	}
	var all Authorities
	if secret == nil {
		if all, err = k.create(ctx); err != nil {
			return nil, err
		}
	} else if all, err = Read(secret.Data); err != nil {
		s.Problem = fmt.Sprintf("Secret %s of namespace %s, with the region's authority, is damaged: %v; restore it from a backup", k.Name, k.Namespace, err)
		return s, nil
	}
	if k.TrustDomain != "" && k.TrustDomain != all.TrustDomain {
		s.Problem = fmt.Sprintf("the region's authority in Secret %s of namespace %s is of trust domain %s, and --trust-domain is %s; a trust domain cannot be renamed: set it back",
			k.Name, k.Namespace, all.TrustDomain, k.TrustDomain)
		return s, nil
	}
	if secret != nil {
		if all, err = k.advance(ctx, secret, own, all); err != nil {
			return nil, err
		}
	}
	s.TrustDomain, s.Bundle, s.Issuing = all.TrustDomain, all.Bundle(), all.Issuing
	return s, k.publish(ctx, own, all)
}

// create makes the authority of this region. If another replica is faster, the next attempt reads what that one has made.
func (k *Keeper) create(ctx context.Context) (Authorities, error) {
	domain := k.TrustDomain
	if domain == "" {
		system := &metav1.PartialObjectMetadata{}
		system.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		if err := k.Uncached.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
			return Authorities{}, fmt.Errorf("read namespace %s, whose UID is part of the trust domain: %w", metav1.NamespaceSystem, err)
		}
		domain = k.Region + "." + string(system.UID)
	}
	all, err := Create(domain, k.Now())
	if err != nil {
		return all, err
	}
	files, err := all.Files()
	if err != nil {
		return all, err
	}
	secret := &corev1.Secret{ObjectMeta: k.metadata(k.Name), Type: corev1.SecretTypeOpaque, Data: files}
	if err := k.Client.Create(ctx, secret); err != nil {
		return all, fmt.Errorf("create Secret %s of namespace %s: %w", k.Name, k.Namespace, err)
	}
	log.FromContext(ctx).Info("created the authority of this region", "trustDomain", domain, "fingerprint", Fingerprint(all.Issuing.Certificate()))
	return all, nil
}

func (k *Keeper) metadata(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: k.Namespace, Name: name, Labels: map[string]string{plan.LabelManagedBy: plan.ManagedBy}}
}

// advance carries out the step of a rotation that was asked for, and drops what has retired.
func (k *Keeper) advance(ctx context.Context, secret *corev1.Secret, own *corev1.ConfigMap, all Authorities) (Authorities, error) {
	request := ""
	if own != nil {
		request = own.Annotations[AnnotationRotate]
	}
	next, changed, err := all.Advance(request, k.Now())
	if err != nil || !changed {
		return all, err
	}
	before := secret.DeepCopy()
	if secret.Data, err = next.Files(); err != nil {
		return all, err
	}
	if err := k.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return all, fmt.Errorf("write Secret %s of namespace %s: %w", k.Name, k.Namespace, err)
	}
	log.FromContext(ctx).Info("rotated the authority of this region", "request", request, "sequence", next.Sequence,
		"issuing", Fingerprint(next.Issuing.Certificate()), "next", next.Next != nil, "retired", len(next.Retired) > 0)
	return next, nil
}

// publish writes the bundle of this region for others to copy.
func (k *Keeper) publish(ctx context.Context, own *corev1.ConfigMap, all Authorities) error {
	data := Entry{Region: k.Region, TrustDomain: all.TrustDomain, Sequence: all.Sequence, Bundle: all.Bundle()}.Data()
	data[FieldIssuing] = Fingerprint(all.Issuing.Certificate())
	if all.Next != nil {
		data[FieldNext], data[FieldNextSince] = Fingerprint(all.Next.Certificate()), all.NextSince.UTC().Format(time.RFC3339)
	}
	if len(all.Retired) > 0 {
		retired, err := ParseBundle(string(all.Retired), all.TrustDomain)
		if err != nil {
			return fmt.Errorf("read the retired authority: %w", err)
		}
		data[FieldRetired], data[FieldRetiredUntil] = Fingerprint(retired[0]), all.RetiredUntil.UTC().Format(time.RFC3339)
	}
	return k.write(ctx, own, k.Name, KindOwn, data)
}

// readOwned reads a ConfigMap that the operator has made, or returns nil if there is none.
func (k *Keeper) readOwned(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	m := &corev1.ConfigMap{}
	err := k.Uncached.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: name}, m)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read ConfigMap %s of namespace %s: %w", name, k.Namespace, err)
	case m.Labels[plan.LabelManagedBy] != plan.ManagedBy:
		return nil, fmt.Errorf("write ConfigMap %s of namespace %s: it exists and was not made by an operator (label %s=%s); delete or rename it", name, k.Namespace,
			plan.LabelManagedBy, plan.ManagedBy)
	}
	return m, nil
}

// write writes a ConfigMap that the operator has made, unless it is as it should be.
func (k *Keeper) write(ctx context.Context, live *corev1.ConfigMap, name, kind string, data map[string]string) error {
	var err error
	switch {
	case live == nil:
		live = &corev1.ConfigMap{ObjectMeta: k.metadata(name), Data: data}
		live.Labels[Label] = kind
		err = k.Client.Create(ctx, live)
	case maps.Equal(live.Data, data) && live.Labels[Label] == kind:
		return nil
	default:
		before := live.DeepCopy()
		live.Data, live.Labels[Label] = data, kind
		err = k.Client.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s of namespace %s: %w", name, k.Namespace, err)
	}
	return nil
}

// loadPeers reads the ConfigMaps about other regions, and records what is accepted of them. The record is read first, so that what
// somebody removes from it is not written back from a ConfigMap that was removed before.
func (k *Keeper) loadPeers(ctx context.Context, s *State) error {
	live, err := k.readOwned(ctx, k.recordName())
	if err != nil {
		return err
	}
	var recorded map[string]Entry
	if live != nil {
		if recorded, err = ReadRecord(live.Data); err != nil {
			return fmt.Errorf("read ConfigMap %s of namespace %s: %w; remove what is damaged", k.recordName(), k.Namespace, err)
		}
	}
	var all corev1.ConfigMapList
	if err := k.Uncached.List(ctx, &all, client.InNamespace(k.Namespace), client.MatchingLabels{Label: KindPeer}); err != nil {
		return fmt.Errorf("list the ConfigMaps about other regions: %w", err)
	}
	var proposals []Entry
	for i := range all.Items {
		e, err := ReadEntry(&all.Items[i])
		if err != nil {
			s.Refused = append(s.Refused, err.Error())
			continue
		}
		proposals = append(proposals, e)
	}
	var refused []string
	s.Peers, refused = Accept(k.Region, s.TrustDomain, recorded, proposals, k.Now().UTC().Truncate(time.Second))
	s.Refused = append(s.Refused, refused...)
	if live == nil && len(s.Peers) == 0 {
		return nil
	}
	if err := k.write(ctx, live, k.recordName(), KindRecord, WriteRecord(s.Peers)); err != nil {
		return err
	}
	for domain, e := range s.Peers {
		if was, known := recorded[domain]; !known || was.Sequence != e.Sequence || was.Revoked != e.Revoked {
			log.FromContext(ctx).Info("recorded a trust domain", "trustDomain", domain, "region", e.Region, "sequence", e.Sequence, "revoked", e.Revoked)
		}
	}
	return nil
}

// Of returns the trust domain of a region and its bundle, or why it has none.
func (s *State) Of(region string) (trustDomain, bundle string, err error) {
	if region == s.Region {
		if s.TrustDomain == "" {
			return "", "", errors.New(s.Problem)
		}
		return s.TrustDomain, s.Bundle, nil
	}
	err = ErrUnknownRegion
	for _, domain := range slices.Sorted(maps.Keys(s.Peers)) {
		switch e := s.Peers[domain]; {
		case e.Region != region:
		case e.Revoked:
			err = ErrRevokedRegion
		default:
			return domain, e.Bundle, nil
		}
	}
	return "", "", err
}

// Errors of State.Of.
var (
	ErrUnknownRegion = errors.New("its bundle is not known")
	ErrRevokedRegion = errors.New("its trust domain is revoked")
)
