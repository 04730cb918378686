package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Labels and annotations of the objects of a run: its ConfigMap, canaries and experiments. They are not those of the
// objects that the operator makes, which would remove what it did not plan.
const (
	LabelStore = "causalstore.io/drill-of"
	LabelRun   = "causalstore.io/drill-run"
	LabelDrill = "causalstore.io/drill"
	// AnnotationAbort on the ConfigMap of a run asks the command that runs it to abort.
	AnnotationAbort = "causalstore.io/drill-abort"
	// AnnotationExpires on the lock of a store is until when the run that holds it has renewed it.
	AnnotationExpires = "causalstore.io/drill-expires"
)

const dataKey = "run.json"

// mostBytes bounds the ConfigMap of a run; Kubernetes allows 1 MiB.
const mostBytes = 900 << 10

// MostRuns is how many runs of a store are kept; the oldest are removed first.
const MostRuns = 20

// Name is the name of the ConfigMap of a run. It has a dot, which the names of the operator's ConfigMaps have only in
// records.
func Name(store, id string) string { return store + "-drill." + id }

// LockName is the name of the ConfigMap that exists while a drill of a store runs.
func LockName(store string) string { return store + "-drill.lock" }

// Labels are those of the objects of a run.
func Labels(store, drill, id string) map[string]string {
	return map[string]string{LabelStore: store, LabelDrill: drill, LabelRun: id}
}

// OfStore selects the ConfigMaps of the runs of a store.
func OfStore(namespace, store string) []client.ListOption {
	return []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{LabelStore: store}}
}

// ConfigMap returns the ConfigMap of a run. A run that is too long for one loses its curves, and says so.
func (r *Run) ConfigMap() (*corev1.ConfigMap, error) {
	b, err := json.Marshal(r)
	if err == nil && len(b) > mostBytes {
		short := *r
		short.Series = nil
		short.Events = r.Events[:min(len(r.Events), 100)]
		short.Violations = r.Violations[:min(len(r.Violations), 20)]
		short.Notes = append(slices.Clone(r.Notes), "the curves are left out: they do not fit into a ConfigMap")
		b, err = json.Marshal(&short)
	}
	if err != nil {
		return nil, fmt.Errorf("encode run %s: %w", r.ID, err)
	}
	if len(b) > mostBytes {
		return nil, fmt.Errorf("run %s has %d bytes, more than fit into a ConfigMap (%d)", r.ID, len(b), mostBytes)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: Name(r.Store, r.ID), Namespace: r.Namespace,
			Labels: Labels(r.Store, r.Drill, r.ID)},
		Data: map[string]string{dataKey: string(b)},
	}, nil
}

// Read returns the run of a ConfigMap.
func Read(m *corev1.ConfigMap) (*Run, error) {
	r := &Run{}
	if err := json.Unmarshal([]byte(m.Data[dataKey]), r); err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s is no run of a drill: %w", m.Namespace, m.Name, err)
	}
	if r.Format != FormatVersion {
		return nil,
			fmt.Errorf(
				"ConfigMap %s/%s has format %d, and this program reads %d: use the version of kubectl causal that "+
					"wrote it", m.Namespace,
				m.Name, r.Format, FormatVersion)
	}
	return r, nil
}

// All returns the runs in ConfigMaps, the newest first. What is no run, such as a lock, is left out.
func All(maps []corev1.ConfigMap) (runs []*Run) {
	for i := range maps {
		if r, err := Read(&maps[i]); err == nil {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b *Run) int {
		if c := b.Started.Compare(a.Started); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	return runs
}

// LatestFinished returns the newest run that has ended, or nil.
func LatestFinished(runs []*Run) *Run {
	i := slices.IndexFunc(runs, func(r *Run) bool { return r.Outcome != Running })
	if i < 0 {
		return nil
	}
	return runs[i]
}

// Expired reports whether a lock is of a run that has certainly ended. A lock that does not say so has not expired.
func Expired(lock *corev1.ConfigMap, now time.Time) bool {
	t := Expiry(lock)
	return !t.IsZero() && now.After(t)
}

// Expiry returns when a lock expires; the zero time if it does not say so.
func Expiry(lock *corev1.ConfigMap) time.Time {
	t, err := time.Parse(time.RFC3339, lock.Annotations[AnnotationExpires])
	if err != nil {
		return time.Time{}
	}
	return t
}
