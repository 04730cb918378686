package trust

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// checkInterval is how often the ConfigMaps about trust are read.
const checkInterval = 3 * time.Second

// Keeper keeps the authority of the operator's region in a Secret of the operator's namespace, publishes its bundle in
// a ConfigMap, and records what it accepts of the bundles of other regions. Several replicas may run one: writes fail
// if the object has changed.
type Keeper struct {
	Client client.Client
	// Uncached reads Secrets and the namespace kube-system, and lists ConfigMaps in the operator's namespace.
	Uncached client.Reader
	// Namespace is that of the operator. Name is that of the Secret, and of the ConfigMap with the own bundle; the
	// record has the suffix ".trusted".
	Namespace, Name string
	Region          string
	// TrustDomain of a new authority. Default: the region and the UID of kube-system, which tells clusters apart.
	TrustDomain string
	Now         func() time.Time
	// Requests asks an issuer of cert-manager for certificates. If it is nil, this operator has the key of the
	// authority.
	Requests *Requests

	mu       sync.Mutex
	leads    bool // whether this replica is the leader
	reported map[types.NamespacedName]Report
	state    *State
	read     time.Time
	failing  time.Time // since when load fails; zero if it does not
	changed  chan event.GenericEvent
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

// Lead makes this replica the leader, which alone asks parts and issuers.
func (k *Keeper) Lead() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leads, k.read = true, time.Time{}
}

// Start implements manager.Runnable: the leader checks what has changed until the context ends.
func (k *Keeper) Start(ctx context.Context) error {
	k.Lead()
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
		if s = k.continueWithout(err); s == nil {
			return nil, err
		}
		if ctx.Err() == nil { // else the operator ends, and so did the request
			log.FromContext(ctx).Error(err,
				"cannot read or write what is known of trust; going on with what was known before")
		}
	} else {
		k.failing = time.Time{}
	}
	if k.state != nil && k.changed != nil && !equal(k.state, s) {
		select {
		case k.changed <- event.GenericEvent{
			Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name}},
		}:
		default: // one is waiting
		}
	}
	k.state, k.read = s, time.Now()
	return s, nil
}

// failureTime is how long reading and writing may fail until it is a problem for people.
const failureTime = 30 * time.Second

// continueWithout returns the state to go on with after an error: what was known before. Certificates must be renewed
// and the status be written also while something is damaged. It returns nil if nothing was known.
func (k *Keeper) continueWithout(err error) *State {
	if k.state == nil {
		return nil
	}
	if k.failing.IsZero() {
		k.failing = time.Now()
	}
	s := *k.state
	if time.Since(k.failing) >= failureTime {
		s.Problem = err.Error()
	}
	return &s
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

func (k *Keeper) metadata(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: k.Namespace, Name: name,
		Labels: map[string]string{plan.LabelManagedBy: plan.ManagedBy}}
}
