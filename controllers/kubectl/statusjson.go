package kubectl

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// storeStatus is what `status -o json` prints of a store in a cluster. Names of fields do not change.
type storeStatus struct {
	Context   string `json:"context,omitempty"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Ready is True, False or Unknown. It is Unknown too if the status is too old to say.
	Ready   string `json:"ready"`
	Message string `json:"message"`
	// Differences say where the pods contradict an old status.
	Differences []string          `json:"differences,omitempty"`
	UnreadyPods []unreadyPodEntry `json:"unreadyPods,omitempty"`
	// Status is that of the resource. It is missing if the cluster could not be read; Error says why.
	Status *v1alpha1.CausalStoreStatus `json:"status,omitempty"`
	Error  string                      `json:"error,omitempty"`
}

type unreadyPodEntry struct {
	Pod        string `json:"pod"`
	Node       string `json:"node,omitempty"`
	AgeSeconds int64  `json:"ageSeconds"`
	Reason     string `json:"reason"`
}

func newStoreStatus(s *v1alpha1.CausalStore, pods storePods, now time.Time) storeStatus {
	is := storeStatus{Namespace: s.Namespace, Name: s.Name, Ready: readiness(s, now), Message: describeReady(s, now),
		Differences: compareWithPods(s, pods.parts, now), Status: &s.Status}
	for _, u := range pods.unready(s, now) {
		age := now.Sub(u.pod.CreationTimestamp.Time)
		is.UnreadyPods = append(is.UnreadyPods, unreadyPodEntry{u.pod.Name, u.pod.Spec.NodeName,
			int64(age.Seconds()), u.reason})
	}
	return is
}

// statusJSON prints a list: an entry for each store in each cluster that has it or cannot be read.
func statusJSON(cmd *cobra.Command, clusters []*cluster, name string) error {
	found, err := findStores(cmd.Context(), clusters, name)
	if err != nil {
		return err
	}
	all := []storeStatus{}
	for _, v := range found {
		pods := v.readPods(cmd.Context())
		now := time.Now()
		for _, r := range v.all {
			switch {
			case r.sameAs != "":
				continue
			case r.store == nil && r.err == nil:
				continue // the cluster does not have it
			case r.store == nil:
				all = append(all, storeStatus{Context: r.context, Namespace: v.namespace, Name: v.name,
					Ready: "Unknown", Error: r.err.Error()})
				continue
			}
			is := newStoreStatus(r.store, *pods[r.context], now)
			if is.Context = r.context; r.err != nil {
				is.Error = r.err.Error()
			}
			all = append(all, is)
		}
	}
	return writeJSON(cmd.OutOrStdout(), all)
}
