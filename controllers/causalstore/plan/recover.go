package plan

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// RecoverRecord rebuilds a record that was lost from what runs: layout and epoch from the configuration of the parts of
// this region, image and restart epoch from their StatefulSets. It returns nil if there is no configuration, as for a
// new store. Without it, another epoch and the image of the present operator would restart every pod.
//
// The record is written before the configuration, so the lost one may have had a later layout, with the next epoch. No
// part has seen that one, unless its epoch is in the status: then the epoch after it is used.
func RecoverRecord(in Observed, configs []corev1.ConfigMap) *Record {
	layout := newestLayout(in, configs)
	if layout == nil {
		return nil
	}
	r := &Record{Epoch: int64(layout.Epoch), ID: publishedID(in, configs)}
	if seen := in.Store.Status.Topology.Epoch; seen > r.Epoch {
		r.Epoch = seen + 1
	}
	layout.Epoch = 0
	text, err := json.Marshal(layout)
	if err != nil {
		panic(err) // unreachable: it was read from such text
	}
	r.Register, r.ShardRegister = publishedRegisters(in, configs, PartsFile),
		publishedRegisters(in, configs, ShardsFile)
	r.Layout, r.Image = string(text), cmp.Or(RunningImage(in.StatefulSets), in.Image)
	for i := range in.StatefulSets {
		if n, err := strconv.ParseInt(in.StatefulSets[i].Annotations[annotationRestartEpoch], 10, 64); err == nil {
			r.RestartEpoch = max(r.RestartEpoch, n)
		}
	}
	r.RestartEpoch = cmp.Or(r.RestartEpoch, r.Epoch)
	return r
}

// newestLayout returns the layout with the greatest epoch that the parts of this region are configured with, or nil.
func newestLayout(in Observed, configs []corev1.ConfigMap) *topology.File {
	var newest *topology.File
	for _, m := range configs {
		dc := m.Labels[LabelDataCenter]
		if !in.IsLocal(dc) || m.Name != DataCenterName(in.Store.Name, dc) {
			continue
		}
		var c contract.Config
		if err := yaml.Unmarshal([]byte(m.Data[PartsFile]), &c); err != nil || c.Topology == nil {
			continue
		}
		if _, err := c.Topology.Topology(); err == nil && (newest == nil || c.Topology.Epoch > newest.Epoch) {
			newest = c.Topology
		}
	}
	return newest
}

// RunningImage returns the image of the parts that StatefulSets run, or "".
func RunningImage(all []appsv1.StatefulSet) string {
	for _, s := range all {
		for _, c := range s.Spec.Template.Spec.Containers {
			if slices.Contains([]string{"coordinator", "middleman", "cache"}, c.Name) {
				return c.Image
			}
		}
	}
	return ""
}
