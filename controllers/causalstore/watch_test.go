package causalstore_test

import (
	"context"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watch returns a reader of objects of some kinds in the namespace, and a channel that can be read after one of them
// has changed, until the test ends. To list them again and again instead would cost the API server more than all that
// the operator does. The reader shows each kind as it was some time ago; it has all that it reported.
func (k *cluster) watch(kinds ...client.Object) (client.Reader, chan struct{}) {
	k.t.Helper()
	informers, err := cache.New(k.config, cache.Options{Scheme: k.client.Scheme(), Mapper: k.client.RESTMapper(),
		DefaultNamespaces: map[string]cache.Config{k.namespace: {}}})
	if err != nil {
		k.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	changed := make(chan struct{}, 1)
	for _, kind := range kinds {
		informer, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc:    func(any) { notify(changed) },
				UpdateFunc: func(any, any) { notify(changed) },
				DeleteFunc: func(any) { notify(changed) },
			})
		}
		if err != nil {
			cancel()
			k.t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- informers.Start(ctx) }()
	k.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			k.t.Errorf("watch: %v", err)
		}
	})
	if !informers.WaitForCacheSync(ctx) {
		k.t.Fatal("watch: the objects cannot be read")
	}
	return informers, changed
}

// notify makes a channel of watch readable.
func notify(changed chan struct{}) {
	select {
	case changed <- struct{}{}:
	default: // it is already
	}
}
