package causalstore

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deletedPods remembers the pods that the operator has deleted until its cache shows that they are gone. Until then the
// cache may still show such a pod as one that serves, and another one would be deleted beside it.
type deletedPods struct {
	mu     sync.Mutex
	stores map[types.NamespacedName][]types.UID
}

func (d *deletedPods) add(store client.Object, pod types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stores == nil {
		d.stores = map[types.NamespacedName][]types.UID{}
	}
	key := client.ObjectKeyFromObject(store)
	d.stores[key] = append(d.stores[key], pod)
}

// mark marks those of the pods, which are all that the cache has of a store, that the operator has deleted as
// terminating, and forgets the others.
func (d *deletedPods) mark(store client.Object, pods []corev1.Pod, now metav1.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := client.ObjectKeyFromObject(store)
	left := slices.DeleteFunc(d.stores[key], func(uid types.UID) bool {
		i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.UID == uid })
		if i >= 0 && pods[i].DeletionTimestamp == nil {
			pods[i].DeletionTimestamp = &now
		}
		return i < 0
	})
	if len(left) == 0 {
		delete(d.stores, key)
		return
	}
	d.stores[key] = left
}

func (d *deletedPods) forget(store types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.stores, store)
}
