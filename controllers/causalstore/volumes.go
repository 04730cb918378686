package causalstore

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get

// volumeCache remembers where the volumes of stores can be used. Kubernetes does not change that.
type volumeCache struct {
	mu     sync.Mutex
	stores map[types.NamespacedName]map[string]*corev1.VolumeNodeAffinity
}

// replace sets the volumes of a store and returns those from before.
func (v *volumeCache) replace(store types.NamespacedName,
	volumes map[string]*corev1.VolumeNodeAffinity) map[string]*corev1.VolumeNodeAffinity {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stores == nil {
		v.stores = map[types.NamespacedName]map[string]*corev1.VolumeNodeAffinity{}
	}
	before := v.stores[store]
	v.stores[store] = volumes
	return before
}

func (v *volumeCache) forget(store types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.stores, store)
}

// findVolumes fills in the zones in which the volumes of a store can be used. Of an operator that may not read volumes
// it is unknown.
func (r *Reconciler) findVolumes(ctx context.Context, in *status.Observed, nodes map[string]map[string]string) error {
	store := client.ObjectKeyFromObject(in.Store)
	known := r.volumes.replace(store, nil)
	now := map[string]*corev1.VolumeNodeAffinity{}
	in.VolumeZones = map[string][]string{}
	for _, c := range in.Claims {
		name := c.Spec.VolumeName
		if name == "" {
			continue
		}
		affinity, ok := known[name]
		if !ok {
			v := &corev1.PersistentVolume{}
			err := r.Uncached.Get(ctx, client.ObjectKey{Name: name}, v)
			if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
				continue
			}
			if err != nil {
				return fmt.Errorf("read volume %s: %w", name, err)
			}
			affinity = v.Spec.NodeAffinity
		}
		now[name] = affinity
		in.VolumeZones[c.Name] = plan.VolumeZones(affinity, in.Store.Spec.ZoneLabel, nodes)
	}
	r.volumes.replace(store, now)
	return nil
}
