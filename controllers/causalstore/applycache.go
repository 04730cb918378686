package causalstore

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// applyCache remembers what was applied, and the version of the object that resulted. Applying the same again to that
// version would change nothing, so it is not sent. A change by anyone else results in another version.
type applyCache struct {
	mu     sync.Mutex
	stores map[types.NamespacedName]map[string]appliedObject
}

type appliedObject struct {
	digest  [sha256.Size]byte
	version string
}

// includes reports whether this was the last that was applied to the object, whatever has happened to that since.
func (a *applyCache) includes(store client.Object, u *unstructured.Unstructured) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was, ok := a.stores[client.ObjectKeyFromObject(store)][u.GetKind()+" "+u.GetName()]
	return ok && was.digest == digest(u)
}

func (a *applyCache) contains(store client.Object, u *unstructured.Unstructured, version string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was, ok := a.stores[client.ObjectKeyFromObject(store)][u.GetKind()+" "+u.GetName()]
	return ok && was.version == version && was.digest == digest(u)
}

func (a *applyCache) add(store client.Object, u *unstructured.Unstructured, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stores == nil {
		a.stores = map[types.NamespacedName]map[string]appliedObject{}
	}
	key := client.ObjectKeyFromObject(store)
	if a.stores[key] == nil {
		a.stores[key] = map[string]appliedObject{}
	}
	a.stores[key][u.GetKind()+" "+u.GetName()] = appliedObject{digest(u), version}
}

// remove forgets an object that the operator deletes.
func (a *applyCache) remove(store client.Object, kind, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.stores[client.ObjectKeyFromObject(store)], kind+" "+name)
}

func (a *applyCache) forget(store types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.stores, store)
}

func digest(u *unstructured.Unstructured) [sha256.Size]byte {
	b, err := json.Marshal(u.Object)
	if err != nil {
		panic(err) // unreachable: it was made from JSON values
	}
	return sha256.Sum256(b)
}
