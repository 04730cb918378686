package causalstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// staleCache is a client that shows pods, and one StatefulSet, as they were some time ago, and on which a pod that it
// deletes takes longer than that to serve again.
type staleCache struct {
	client.Client
	workloads *workloads
	set       string

	mu   sync.Mutex
	pods []stalePods
	sets []staleSet
}

type stalePods struct {
	at   time.Time
	list []corev1.Pod
}

type staleSet struct {
	at  time.Time
	set appsv1.StatefulSet
}

const podsLag, setLag, podStart = 1500 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second

func (c *staleCache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := c.Client.List(ctx, list, options...); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch l := list.(type) {
	case *corev1.PodList:
		c.pods = append(c.pods, stalePods{now, l.DeepCopy().Items})
		for len(c.pods) > 1 && now.Sub(c.pods[1].at) > podsLag {
			c.pods = c.pods[1:]
		}
		l.Items = (&corev1.PodList{Items: c.pods[0].list}).DeepCopy().Items
	case *appsv1.StatefulSetList:
		for i := range l.Items {
			if l.Items[i].Name != c.set {
				continue
			}
			c.sets = append(c.sets, staleSet{now, *l.Items[i].DeepCopy()})
			for len(c.sets) > 1 && now.Sub(c.sets[1].at) > setLag {
				c.sets = c.sets[1:]
			}
			c.sets[0].set.DeepCopyInto(&l.Items[i])
		}
	}
	return nil
}

func (c *staleCache) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	if _, ok := o.(*corev1.Pod); ok {
		c.workloads.fail(o.GetName())
		time.AfterFunc(podStart, func() { c.workloads.repair(o.GetName()) })
	}
	return c.Client.Delete(ctx, o, options...)
}

func TestPodsRestartOneAtATimeAlthoughTheCacheIsStale(t *testing.T) {
	k := newCluster(t)
	k.wrap = func(c client.Client) client.Client {
		return &staleCache{Client: c, workloads: k.workloads, set: "try-here-shard-0"}
	}
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	before := k.podsOf("try")
	k.update("try", func(s *v1alpha1.CausalStore) {
		s.Spec.Pods.Labels = v1alpha1.Labels{"team": "shop"}
	})
	k.await("labels on all pods", func() (bool, string) {
		pods := k.podsOf("try")
		if len(pods) != len(before) {
			return false, fmt.Sprintf("%d of %d pods are there", len(pods), len(before))
		}
		for _, p := range pods {
			if p.Labels["team"] != "shop" || !isReady(&p) {
				return false, p.Name + " is as before, or not ready"
			}
		}
		return true, ""
	})
	if order, most := k.workloads.history(); len(order) != len(before) || most > 1 {
		t.Errorf("%v restarted, %d at once; want %d, one at a time", order, most, len(before))
	}
}
