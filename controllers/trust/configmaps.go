package trust

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// publish writes the bundle of this region for others to copy.
func (k *Keeper) publish(ctx context.Context, own *corev1.ConfigMap, all Authorities,
	waiting, refusedBy []string) error {
	data := Entry{Region: k.Region, TrustDomain: all.TrustDomain, Sequence: all.Sequence, Bundle: all.Bundle()}.Data()
	data[FieldIssuing] = Fingerprint(all.Issuing.Certificate())
	if all.Next != nil {
		data[FieldNext], data[FieldNextSince], data[FieldWaiting] = Fingerprint(all.Next.Certificate()),
			formatTime(all.NextSince), strings.Join(waiting, "\n")
	}
	if len(refusedBy) > 0 {
		data[FieldRefusedBy] = strings.Join(refusedBy, "\n")
	}
	if len(all.Retired) > 0 {
		data[FieldRetired], data[FieldRetiredUntil] = Fingerprint(all.Retired[0].Root.Certificate()),
			formatTime(all.Retired[0].Until)
	}
	if k.Requests != nil {
		data[FieldIssuer] = k.Requests.Issuer.String()
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
	case m.Labels[plan.LabelManagedBy] != plan.ManagedBy && m.Labels[Label] == "": // either label says so
		return nil,
			fmt.Errorf(
				"write ConfigMap %s of namespace %s: it exists and was not made by an operator (label %s=%s); delete "+
					"or rename it", name, k.Namespace,
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
	case maps.Equal(live.Data, data) && live.Labels[Label] == kind &&
		live.Labels[plan.LabelManagedBy] == plan.ManagedBy:
		return nil
	default:
		before := live.DeepCopy()
		live.Data, live.Labels[Label], live.Labels[plan.LabelManagedBy] = data, kind, plan.ManagedBy
		err = k.Client.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s of namespace %s: %w", name, k.Namespace, err)
	}
	return nil
}

// loadPeers reads the ConfigMaps about other regions, and records what is accepted of them. The record is read first,
// so that what somebody removes from it is not written back from a ConfigMap that was removed before.
func (k *Keeper) loadPeers(ctx context.Context, s *State) error {
	live, err := k.readOwned(ctx, k.recordName())
	if err != nil {
		return err
	}
	var recorded map[string]Entry
	var damaged map[string]string
	if live != nil {
		recorded, damaged = ReadRecord(live.Data)
	}
	for _, domain := range slices.Sorted(maps.Keys(damaged)) {
		s.Refused = append(s.Refused,
			fmt.Sprintf(
				"trust domain %s: its entry in ConfigMap %s of namespace %s is damaged, so that nothing is known of "+
					"it, and it is not trusted; remove the entry, and run kubectl causal trust or untrust",
				domain, k.recordName(), k.Namespace))
	}
	var all corev1.ConfigMapList
	if err := k.Uncached.List(ctx, &all, client.InNamespace(k.Namespace),
		client.MatchingLabels{Label: KindPeer}); err != nil {
		return fmt.Errorf("list the ConfigMaps about other regions: %w", err)
	}
	var proposals []Entry
	for i := range all.Items {
		e, err := ReadEntry(&all.Items[i])
		if err != nil {
			s.Refused = append(s.Refused, err.Error())
			continue
		}
		if _, is := damaged[e.TrustDomain]; is {
			continue // it may have been revoked
		}
		proposals = append(proposals, e)
	}
	var refused []string
	s.Peers, refused = Accept(k.Region, s.TrustDomain, recorded, proposals, k.Now().UTC().Truncate(time.Second))
	s.Refused = append(s.Refused, refused...)
	if live == nil && len(s.Peers) == 0 {
		return nil
	}
	if err := k.write(ctx, live, k.recordName(), KindRecord, WriteRecord(s.Peers, damaged)); err != nil {
		return err
	}
	for domain, e := range s.Peers {
		if was, known := recorded[domain]; !known || was.Sequence != e.Sequence || was.Revoked != e.Revoked {
			log.FromContext(ctx).Info("recorded a trust domain", "trustDomain", domain, "region", e.Region, "sequence",
				e.Sequence, "revoked", e.Revoked)
		}
	}
	return nil
}
