package kubectl

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// TestTheStateOfAPartDecidesTheAdvice: the plugin knows the state from the status of the store.
func TestTheStateOfAPartDecidesTheAdvice(t *testing.T) {
	for _, c := range []struct {
		state        contract.State
		component    string
		advice, safe string
	}{
		{contract.StateDataLost, plan.ComponentShard, "#a-shard-has-lost-its-data",
			"Never replace the volume by an older one"},
		{contract.StateDataLost, plan.ComponentCoordinator, "#a-coordinator-has-lost-its-log",
			"Never replace the volume by an older one"},
		{contract.StateDuplicateIdentity, plan.ComponentCoordinator, "#two-processes-with-one-identity",
			"its volume stays"},
		{contract.StateStorageFull, plan.ComponentShard, "spec.storage.volume.size", "its volume stays"},
		{contract.StateLogFull, plan.ComponentCoordinator, "coordinators.volume.size", "its volume stays"},
		{contract.StateStorageFailing, plan.ComponentShard, "#causalstorepartnotready", "its volume stays"},
	} {
		s := &v1alpha1.CausalStore{}
		s.Status.Problems = []v1alpha1.PodProblem{{Pod: "p", Reason: string(c.state), Message: "because"}}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns",
			Labels: map[string]string{plan.LabelComponent: c.component}}}
		cause := causeOf(p, s, time.Now())
		if got := (scaleDowns{}).unreadyReason(p, s, time.Now()); got != string(c.state)+": because" {
			t.Errorf("%s: the reason is %q", c.state, got)
		}
		e := &evidence{store: s}
		if got := strings.Join(e.advise(p, cause), "; "); !strings.Contains(got, c.advice) {
			t.Errorf("%s: the advice is %q", c.state, got)
		}
		if got := (&evidence{}).safety(p, cause); !strings.Contains(got, c.safe) {
			t.Errorf("%s: what is safe: %q", c.state, got)
		}
	}
}
